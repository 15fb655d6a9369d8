// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/optim/chain.h"

/// Transformations that scale each array by norms of the update and of its parameter, with optax's names.
namespace lockstep::optim {

namespace internal {
Array scaled_by_trust_ratio(const Array& update, const Array& parameter, double min_norm, double coefficient,
                            double eps);
Array clipped_by_block_rms(const Array& update, double threshold);
Array scaled_by_block_rms(const Array& update, const Array& parameter, double min_scale);
Array adaptively_clipped(const Array& update, const Array& parameter, double clipping, double eps,
                         const std::optional<std::vector<std::int64_t>>& axis);
}  // namespace internal

/// update * trust_coefficient * |parameter| / (|update| + eps). The norms are those of whole arrays, and at
/// least min_norm; if one of them is 0, the update is unchanged (You and others, 2020).
inline auto scale_by_trust_ratio(double min_norm = 0, double trust_coefficient = 1, double eps = 0) {
  return Stateless{[=](const Array& u, const Array& p) {
    return internal::scaled_by_trust_ratio(u, p, min_norm, trust_coefficient, eps);
  }};
}

/// Scales each array down to the root mean square `threshold` if its root mean square is larger.
inline auto clip_by_block_rms(double threshold) {
  return Stateless{
      [=](const Array& u, const Array&) { return internal::clipped_by_block_rms(u, threshold); }};
}

/// Multiplies by the root mean square of the parameter, or by min_scale if that is larger.
inline auto scale_by_param_block_rms(double min_scale = 1e-3) {
  return Stateless{
      [=](const Array& u, const Array& p) { return internal::scaled_by_block_rms(u, p, min_scale); }};
}

/// Scales each unit's gradient down if its norm is above clipping * max(norm of the unit's parameters, eps).
/// Norms are taken along `axis`. The default is: all but the last dimension for arrays of 4 or 5 dimensions,
/// the first dimension for 2 or 3, and all elements for a vector; throws ShapeError for more dimensions.
/// (Brock and others, "High-Performance Large-Scale Image Recognition Without Normalization", 2021.)
inline auto adaptive_grad_clip(double clipping, double eps = 1e-3,
                               std::optional<std::vector<std::int64_t>> axis = std::nullopt) {
  return Stateless{[=](const Array& u, const Array& p) {
    return internal::adaptively_clipped(u, p, clipping, eps, axis);
  }};
}

}  // namespace lockstep::optim
