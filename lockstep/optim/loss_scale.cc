// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/loss_scale.h"

#include "lockstep/base/fail.h"

namespace lockstep::optim {

Array internal::all_finite(std::span<const Array> arrays) {
  Array finite;
  for (const Array& array : arrays) {
    const Array here = all(isfinite(array));
    finite = finite.valid() ? logical_and(finite, here) : here;
  }
  return finite.valid() ? finite : full({}, true);
}

void internal::check_choice(const Array& predicate) {
  if (predicate.dtype() == DType::kBool && predicate.shape().empty()) return;
  fail<TraceError>("[optim] expected a predicate that is a bool scalar, got {} (at {})",
                   to_string(predicate.aval()), CallSiteScope::current().to_string());
}

DynamicLossScale DynamicLossScale::adjust(const Array& grads_finite, SourceLocation where) const {
  CallSiteScope here(CallSite::from(where));
  internal::check_choice(grads_finite);
  const Array larger = loss_scale * factor;
  const Array due = logical_and(counter == period - 1, isfinite(larger));
  DynamicLossScale next = *this;
  next.loss_scale = lockstep::where(grads_finite, lockstep::where(due, larger, loss_scale),
                                    maximum(min_loss_scale, loss_scale / factor));
  next.counter = lockstep::where(grads_finite, (counter + 1) % period, 0);
  return next;
}

DynamicLossScale dynamic_loss_scale(double initial, std::int64_t period, double factor,
                                    double min_loss_scale) {
  return {full({}, initial, DType::kF32), full({}, 0, DType::kI32), period, factor, min_loss_scale};
}

}  // namespace lockstep::optim
