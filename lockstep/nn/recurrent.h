// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/nn/layers.h"

/// Cells of recurrent networks that compute as flax's do. A cell maps a state and an input to the next state
/// and an output, as scan expects:
///   auto [last, outputs] = scan(cell, cell.initialize_carry({batch}), inputs);  // inputs: [steps, batch, …]
namespace lockstep::nn {

struct LSTMState {
  Array c, h;  ///< [..., features]
};

/// Long short-term memory (Hochreiter and Schmidhuber, 1997). Each of the gates i, f, g and o has its part of
/// input(x) + recurrent(h):
///   c' = sigmoid(f) * c + sigmoid(i) * tanh(g)        h' = sigmoid(o) * tanh(c')
struct LSTMCell {
  std::int64_t in_features = 0, features = 0;
  Initializer kernel_init = {};            ///< by default lecun_normal
  Initializer recurrent_kernel_init = {};  ///< of the matrix of each gate; by default orthogonal
  Initializer bias_init = {};              ///< by default zeros
  PartitionSpec axes = {};                 ///< logical axes of the input, the gates and the features
  DType dtype = DType::kF32;

  Linear input = {};      ///< in_features to [4, features], without bias; the gates are i, f, g, o
  Linear recurrent = {};  ///< features to [4, features]

  LSTMCell init(const random::KeyOperand& key) const;

  /// The output is h'.
  std::pair<LSTMState, Array> operator()(const LSTMState& state, const Operand& x) const;

  /// The initial state: zeros, [batch..., features].
  LSTMState initialize_carry(const Shape& batch) const;

  static void tree_parts(LSTMCell& self, tree::Parts& part);
};

/// Gated recurrent unit (Cho and others, 2014). input(x) and recurrent(h) each have parts r, z and n; r and z
/// below are the sums of the two:
///   n' = tanh(input n + sigmoid(r) * (recurrent n + bias))    h' = (1 - sigmoid(z)) * n' + sigmoid(z) * h
struct GRUCell {
  std::int64_t in_features = 0, features = 0;
  Initializer kernel_init = {}, recurrent_kernel_init = {}, bias_init = {};  ///< as in LSTMCell
  PartitionSpec axes = {};
  DType dtype = DType::kF32;

  Linear input = {};      ///< in_features to [3, features]; the parts are r, z, n
  Linear recurrent = {};  ///< features to [3, features], without bias
  Array bias = {};        ///< [features]: added to the n of recurrent(h)

  GRUCell init(const random::KeyOperand& key) const;

  /// The output is h'.
  std::pair<Array, Array> operator()(const Array& h, const Operand& x) const;

  /// The initial state: zeros, [batch..., features].
  Array initialize_carry(const Shape& batch) const;

  static void tree_parts(GRUCell& self, tree::Parts& part);
};

}  // namespace lockstep::nn
