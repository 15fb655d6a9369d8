// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/layer.h"
#include "lockstep/ops/operand.h"

namespace lockstep::nn {

/// A mixture of experts (Shazeer et al., 2017), as Mixtral's: each token goes to those experts that its
/// router gives the highest probabilities, and the result is the mean of what they give, weighted by these
/// probabilities. An expert is down(silu(gate(x)) * up(x)), without biases. No token is dropped, whatever the
/// others choose (`grouped_matmul`, lockstep/ops/matmul.h).
///
/// Over a mesh, tokens may be split, and the experts' hidden features.
struct MixtureOfExperts {
  std::int64_t features = 0, hidden_features = 0, num_experts = 0;
  std::int64_t experts_per_token = 2;
  Initializer kernel_init = {};  ///< by default lecun_normal
  PartitionSpec axes = {};       ///< logical axes of features and hidden features
  DType dtype = DType::kF32;

  Array router = {};  ///< [features, num_experts]
  Array gate = {};    ///< [num_experts, features, hidden_features]
  Array up = {};      ///< the same
  Array down = {};    ///< [num_experts, hidden_features, features]

  MixtureOfExperts init(const random::KeyOperand& key) const;

  /// [..., features] to the same shape. The probabilities are computed in f32, those of the chosen experts
  /// divided by their sum.
  Array operator()(const Operand& x) const;

  std::vector<tree::NamedAxes> logical_axes() const;
  static void tree_parts(MixtureOfExperts& self, tree::Parts& part);
};

}  // namespace lockstep::nn
