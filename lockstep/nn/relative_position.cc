// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/relative_position.h"

#include <cmath>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

/// The smallest distance of each bucket but the first of those that are for ranges of distances.
std::vector<std::int64_t> first_distances(std::int64_t exact, std::int64_t buckets,
                                          std::int64_t max_distance) {
  std::vector<std::int64_t> all;
  const double growth = static_cast<double>(max_distance) / static_cast<double>(exact);
  const std::int64_t ranges = buckets - exact;
  for (std::int64_t k = 1; k < ranges; ++k) {
    const double from =
        static_cast<double>(exact) * std::pow(growth, static_cast<double>(k) / static_cast<double>(ranges));
    all.push_back(static_cast<std::int64_t>(std::ceil(from - 1e-9 * from)));
  }
  return all;
}

}  // namespace

RelativePositionBias RelativePositionBias::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  internal::check_sizes("RelativePositionBias", "num_heads, num_buckets and max_distance",
                        {num_heads, num_buckets, max_distance});
  const std::int64_t each = bidirectional ? num_buckets / 2 : num_buckets;
  if (each < 2 || max_distance <= each / 2) {
    fail<ShapeError>(
        "[nn::RelativePositionBias] expected at least {} buckets and a max_distance above half of those of a "
        "direction, got {} and {}{}",
        bidirectional ? 4 : 2, num_buckets, max_distance, ops::at());
  }
  using namespace initializers;
  const FanAxes by_heads{.in_axis = {-1}, .out_axis = {0}};
  RelativePositionBias layer = *this;
  layer.embedding =
      internal::made(embedding_init, variance_scaling(1, Fan::kIn, Distribution::kNormal, by_heads), key,
                     "embedding", {num_buckets, num_heads}, dtype);
  return layer;
}

Array RelativePositionBias::operator()(std::int64_t queries, std::int64_t keys,
                                       const Operand& first_query) const {
  CallSiteScope here(first_query.site());
  internal::check_made("RelativePositionBias", embedding);
  const std::int64_t each = bidirectional ? num_buckets / 2 : num_buckets, exact = each / 2;
  // Positive where the key is after the query.
  const Array ahead = arange(keys, DType::kI32) -
                      expand_dims(arange(queries, DType::kI32) + astype(first_query, DType::kI32), 1);
  const Array distance = bidirectional ? abs(ahead) : maximum(-ahead, 0);
  Array bucket = minimum(distance, static_cast<int>(exact));
  for (std::int64_t from : first_distances(exact, each, max_distance))
    bucket = bucket + astype(distance >= static_cast<int>(from), DType::kI32);
  if (bidirectional) bucket = bucket + where(ahead > 0, static_cast<int>(each), 0);
  return expand_dims(transpose(nn::embedding(embedding, bucket), {2, 0, 1}), 0);
}

std::vector<tree::NamedAxes> RelativePositionBias::logical_axes() const { return {{"embedding", axes}}; }

void RelativePositionBias::tree_parts(RelativePositionBias& self, tree::Parts& part) {
  part("num_buckets", std::as_const(self.num_buckets))("max_distance", std::as_const(self.max_distance));
  part("bidirectional", std::as_const(self.bidirectional))("embedding", self.embedding);
}

}  // namespace lockstep::nn
