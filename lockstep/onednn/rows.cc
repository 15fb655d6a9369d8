// SPDX-License-Identifier: Apache-2.0
#include "lockstep/onednn/rows.h"

#include <limits>

// The baseline, AVX2 and AVX-512 are enough: each further target compiles every loop once more.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/onednn/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::onednn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kRowMultiple>;

/// Highway's is 0 of a NaN.
template <class V>
V exp_of(Tag d, V x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, x), x);
}

float highest_of_row(const float* x, std::size_t count) {
  const Tag d;
  auto highest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto some = hn::LoadU(d, x + i);
    highest = hn::IfThenElse(hn::Lt(highest, some), some, highest);
  }
  return hn::GetLane(hn::MaxOfLanes(d, highest));
}

float exp_row(float* x, std::size_t count, float highest) {
  const Tag d;
  auto sum = hn::Zero(d);
  const auto least = hn::Set(d, highest);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto power = exp_of(d, hn::Sub(hn::LoadU(d, x + i), least));
    sum = hn::Add(sum, power);
    hn::StoreU(power, d, x + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void weights_of_row(float* scores, float* cotangents, std::size_t count, float log, float mean) {
  const Tag d;
  const auto subtracted = hn::Set(d, log), m = hn::Set(d, mean);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto weight = exp_of(d, hn::Sub(hn::LoadU(d, scores + i), subtracted));
    hn::StoreU(weight, d, scores + i);
    hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, cotangents + i), m)), d, cotangents + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::onednn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::onednn {
namespace {

HWY_EXPORT(highest_of_row);
HWY_EXPORT(exp_row);
HWY_EXPORT(weights_of_row);

}  // namespace

float highest_of_row(const float* x, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(highest_of_row)(x, count);
}
float exp_row(float* x, std::size_t count, float highest) {
  return HWY_DYNAMIC_DISPATCH(exp_row)(x, count, highest);
}
void weights_of_row(float* scores, float* cotangents, std::size_t count, float log, float mean) {
  HWY_DYNAMIC_DISPATCH(weights_of_row)(scores, cotangents, count, log, mean);
}

}  // namespace lockstep::onednn
#endif
