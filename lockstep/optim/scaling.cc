// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/scaling.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"

namespace lockstep::optim::internal {
namespace {

/// update * factor, in the update's dtype; factors of narrow updates are f32.
Array scaled(const Array& update, const Array& factor) {
  return update * (size_of(update.dtype()) < 4 ? astype(factor, update.dtype()) : factor);
}

/// The norm of all elements, at least `least`.
Array norm_of(const Array& x, double least) {
  const Array norm = sqrt(sum(square(ops::widened(x))));
  return where(norm <= least, least, norm);
}

Array rms_of(const Array& x) { return sqrt(mean(square(ops::widened(x)))); }

/// The norm of each unit, of x's rank.
Array unit_norms(const Array& x, const std::optional<std::vector<std::int64_t>>& axis) {
  std::vector<std::int64_t> along;
  if (axis) {
    along = *axis;
  } else if (std::ranges::count_if(x.shape(), [](std::int64_t size) { return size != 1; }) <= 1) {
    for (std::int64_t d = 0; d < x.ndim(); ++d) along.push_back(d);
  } else if (x.ndim() <= 3) {
    along = {0};
  } else if (x.ndim() <= 5) {
    for (std::int64_t d = 0; d + 1 < x.ndim(); ++d) along.push_back(d);
  } else {
    fail<ShapeError>(
        "[adaptive_grad_clip] expected parameters of up to 5 dimensions, got {} (at {}); name the axes over "
        "which a unit's norm is taken",
        lockstep::to_string(x.aval()), CallSiteScope::current().to_string());
  }
  if (along.empty()) return abs(ops::widened(x));
  return sqrt(sum(square(ops::widened(x)), {.axis = Axes(along), .keepdims = true}));
}

}  // namespace

Array scaled_by_trust_ratio(const Array& update, const Array& parameter, double min_norm, double coefficient,
                            double eps) {
  const Array of_parameter = norm_of(parameter, min_norm), of_update = norm_of(update, min_norm);
  const Array is_zero = logical_or(of_parameter == 0, of_update == 0);
  return scaled(update, where(is_zero, 1.0, coefficient * of_parameter / (of_update + eps)));
}

Array clipped_by_block_rms(const Array& update, double threshold) {
  return astype(update / maximum(1.0, rms_of(update) / threshold), update.dtype());
}

Array scaled_by_block_rms(const Array& update, const Array& parameter, double min_scale) {
  const Array rms = rms_of(parameter);
  return scaled(update, where(rms <= min_scale, min_scale, rms));
}

Array adaptively_clipped(const Array& update, const Array& parameter, double clipping, double eps,
                         const std::optional<std::vector<std::int64_t>>& axis) {
  const Array norm = unit_norms(update, axis), most = clipping * maximum(unit_norms(parameter, axis), eps);
  return where(norm < most, update, scaled(update, most / maximum(norm, 1e-6)));
}

}  // namespace lockstep::optim::internal
