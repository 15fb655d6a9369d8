// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/schedules.h"

#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/ops/ops.h"

namespace lockstep::optim {
namespace {

/// How much of the way is done, in [0, 1].
Array progress(const Array& count, DType dtype, std::int64_t begin, std::int64_t steps) {
  return astype(clip(count - begin, 0, steps), dtype) / static_cast<double>(steps);
}

void check_steps(const char* schedule, std::int64_t steps) {
  if (steps <= 0) {
    throw Error("[" + std::string(schedule) + "] expected more than 0 steps, got " + std::to_string(steps));
  }
}

}  // namespace

Schedule constant_schedule(double value) {
  return [value](const Array& count, DType dtype) { return full_like(astype(count, dtype), value); };
}

Schedule polynomial_schedule(const PolynomialSchedule& options) {
  check_steps("polynomial_schedule", options.transition_steps);
  return [o = options](const Array& count, DType dtype) {
    Array left = 1.0 - progress(count, dtype, o.transition_begin, o.transition_steps);
    // At the end a rounded quotient may be above 1, and powers of numbers below 0 are NaN.
    if (o.power != 1) left = power(maximum(left, 0.0), o.power);
    return (o.init_value - o.end_value) * left + o.end_value;
  };
}

Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin) {
  return polynomial_schedule(
      PolynomialSchedule{init_value, end_value, power, transition_steps, transition_begin});
}

Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin) {
  return polynomial_schedule(
      PolynomialSchedule{init_value, end_value, 1, transition_steps, transition_begin});
}

Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           ExponentialDecayOptions options) {
  check_steps("exponential_decay", transition_steps);
  return [=](const Array& count, DType dtype) {
    Array since = count - options.transition_begin;
    Array exponent = astype(since, dtype) / static_cast<double>(transition_steps);
    if (options.staircase) exponent = floor(exponent);
    Array value = where(since <= 0, init_value, init_value * power(decay_rate, exponent));
    if (!options.end_value) return value;
    return decay_rate < 1 ? maximum(value, *options.end_value) : minimum(value, *options.end_value);
  };
}

Schedule cosine_decay_schedule(const CosineDecay& options) {
  check_steps("cosine_decay_schedule", options.decay_steps);
  return [o = options](const Array& count, DType dtype) {
    Array cosine = 0.5 * (1.0 + cos(std::numbers::pi * progress(count, dtype, 0, o.decay_steps)));
    if (o.exponent != 1) cosine = power(cosine, o.exponent);
    return o.init_value * ((1 - o.alpha) * cosine + o.alpha);
  };
}

Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps) {
  return cosine_decay_schedule(CosineDecay{init_value, decay_steps});
}

Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha, double exponent) {
  return cosine_decay_schedule(CosineDecay{init_value, decay_steps, alpha, exponent});
}

Schedule join_schedules(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries) {
  if (schedules.size() != boundaries.size() + 1) {
    throw Error("[join_schedules] expected one boundary fewer than schedules, got " +
                std::to_string(schedules.size()) + " schedules and " + std::to_string(boundaries.size()) +
                " boundaries");
  }
  return [schedules = std::move(schedules), boundaries = std::move(boundaries)](const Array& count,
                                                                                DType dtype) {
    Array value = schedules[0](count, dtype);
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      value = where(count < boundaries[i], value, schedules[i + 1](count - boundaries[i], dtype));
    }
    return value;
  };
}

Schedule warmup_cosine_decay_schedule(const WarmupCosineDecay& o) {
  const double alpha = o.peak_value == 0 ? 0 : o.end_value / o.peak_value;
  return join_schedules(
      {linear_schedule(o.init_value, o.peak_value, o.warmup_steps),
       cosine_decay_schedule(CosineDecay{o.peak_value, o.decay_steps - o.warmup_steps, alpha, o.exponent})},
      {o.warmup_steps});
}

Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value, double exponent) {
  return warmup_cosine_decay_schedule(
      WarmupCosineDecay{init_value, peak_value, warmup_steps, decay_steps, end_value, exponent});
}

Schedule sgdr_schedule(const std::vector<WarmupCosineDecay>& cycles) {
  std::vector<Schedule> schedules;
  std::vector<std::int64_t> boundaries;
  std::int64_t end = 0;
  for (const WarmupCosineDecay& cycle : cycles) {
    if (!schedules.empty()) boundaries.push_back(end);
    schedules.push_back(warmup_cosine_decay_schedule(cycle));
    end += cycle.decay_steps;
  }
  return join_schedules(std::move(schedules), std::move(boundaries));
}

Schedule warmup_constant_schedule(double init_value, double peak_value, std::int64_t warmup_steps) {
  return linear_schedule(init_value, peak_value, warmup_steps);
}

Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           ExponentialDecayOptions options) {
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         exponential_decay(peak_value, transition_steps, decay_rate, options)},
                        {warmup_steps});
}

Schedule piecewise_constant_schedule(double init_value,
                                     const std::map<std::int64_t, double>& boundaries_and_scales) {
  return [=](const Array& count, DType dtype) {
    Array value = full_like(astype(count, dtype), init_value);
    for (const auto& [boundary, scale] : boundaries_and_scales)
      value = where(count >= boundary, value * scale, value);
    return value;
  };
}

}  // namespace lockstep::optim
