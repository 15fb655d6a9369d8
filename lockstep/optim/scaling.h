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

/// LAMB (You and others, "Large Batch Optimization for Deep Learning", 2020): Adam's direction plus weight
/// decay, scaled by the trust ratio. The learning rate is a number or a schedule.
template <class Rate>
struct LambOptions {
  Rate learning_rate;
  double b1 = 0.9, b2 = 0.999, eps = 1e-6, weight_decay = 0;
  Mask mask = {};
};

namespace internal {

template <class Rate>
auto lamb_of(LambOptions<Rate> o) {
  return chain(scale_by_adam({o.b1, o.b2, o.eps}), add_decayed_weights(o.weight_decay, std::move(o.mask)),
               scale_by_trust_ratio(), scale_by_learning_rate(o.learning_rate));
}

}  // namespace internal

template <class = void>
auto lamb(LambOptions<double> options) {
  return internal::lamb_of(std::move(options));
}
template <class = void>
auto lamb(LambOptions<Schedule> options) {
  return internal::lamb_of(std::move(options));
}
template <class Rate>
auto lamb(Rate learning_rate) {
  return internal::lamb_of(LambOptions<Rate>{std::move(learning_rate)});
}
template <class Rate>
[[deprecated("name the options: lamb({.learning_rate = 1e-3, .weight_decay = 0.1})")]] auto lamb(
    Rate learning_rate, double b1, double b2 = 0.999, double eps = 1e-6, double weight_decay = 0,
    Mask mask = {}) {
  return internal::lamb_of(
      LambOptions<Rate>{std::move(learning_rate), b1, b2, eps, weight_decay, std::move(mask)});
}

}  // namespace lockstep::optim
