// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/mixture_of_experts.h"

#include "lockstep/base/fail.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"

namespace lockstep::nn {

using internal::check_features;
using internal::check_made;
using internal::check_sizes;
using internal::made;

MixtureOfExperts MixtureOfExperts::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  check_sizes("MixtureOfExperts", "features, hidden_features and num_experts",
              {features, hidden_features, num_experts});
  if (experts_per_token < 1 || experts_per_token > num_experts) {
    fail<ShapeError>(
        "[nn::MixtureOfExperts] experts_per_token is {}: expected 1 to {}, the number of experts{}",
        experts_per_token, num_experts, ops::at());
  }
  const auto kernel = [&](std::string_view name, const Shape& shape) {
    return made(kernel_init, initializers::lecun_normal({.batch_axis = {0}}), key, name, shape, dtype);
  };
  MixtureOfExperts layer = *this;
  layer.router =
      made(kernel_init, initializers::lecun_normal(), key, "router", {features, num_experts}, dtype);
  layer.gate = kernel("gate", {num_experts, features, hidden_features});
  layer.up = kernel("up", {num_experts, features, hidden_features});
  layer.down = kernel("down", {num_experts, hidden_features, features});
  return layer;
}

Array MixtureOfExperts::operator()(const Operand& x) const {
  CallSiteScope here(x.site());
  check_made("MixtureOfExperts", router);
  check_features("MixtureOfExperts", x, {features});
  const std::int64_t k = experts_per_token;
  const Array tokens = reshape(x, {-1, features});
  const Array probabilities = softmax(astype(matmul(tokens, router), DType::kF32));
  const auto [chosen, experts] = top_k(probabilities, k);  // [tokens, k]
  const Array weights = astype(chosen / expand_dims(sum(chosen, -1), 1), x.type().dtype);
  // Each token once for each of its experts.
  const std::int64_t count = tokens.shape()[0];
  const Array rows =
      reshape(broadcast_to(expand_dims(tokens, 1), {count, k, features}), {count * k, features});
  const Array group = reshape(experts, {count * k});
  const Array hidden = silu(grouped_matmul(rows, gate, group)) * grouped_matmul(rows, up, group);
  const Array results = reshape(grouped_matmul(hidden, down, group), {count, k, features});
  return reshape(sum(results * expand_dims(weights, 2), 1), x.shape());
}

std::vector<tree::NamedAxes> MixtureOfExperts::logical_axes() const {
  const auto &of_features = axes.axes(0), &of_hidden = axes.axes(1);
  const PartitionSpec up = PartitionSpec::from_entries({{}, of_features, of_hidden}).normalized();
  return {{"router", PartitionSpec::from_entries({of_features}).normalized()},
          {"gate", up},
          {"up", up},
          {"down", PartitionSpec::from_entries({{}, of_hidden, of_features}).normalized()}};
}

void MixtureOfExperts::tree_parts(MixtureOfExperts& self, tree::Parts& part) {
  part("router", self.router)("gate", self.gate)("up", self.up)("down", self.down);
}

}  // namespace lockstep::nn
