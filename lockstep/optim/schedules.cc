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

Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin) {
  check_steps("polynomial_schedule", transition_steps);
  return [=](const Array& count, DType dtype) {
    Array left = 1.0 - progress(count, dtype, transition_begin, transition_steps);
    // At the end a rounded quotient may be above 1, and powers of numbers below 0 are NaN.
    if (power != 1) left = lockstep::power(maximum(left, 0.0), power);
    return (init_value - end_value) * left + end_value;
  };
}

Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin) {
  return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin);
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

Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha, double exponent) {
  check_steps("cosine_decay_schedule", decay_steps);
  return [=](const Array& count, DType dtype) {
    Array cosine = 0.5 * (1.0 + cos(std::numbers::pi * progress(count, dtype, 0, decay_steps)));
    if (exponent != 1) cosine = power(cosine, exponent);
    return init_value * ((1 - alpha) * cosine + alpha);
  };
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

Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value, double exponent) {
  const double alpha = peak_value == 0 ? 0 : end_value / peak_value;
  return join_schedules({linear_schedule(init_value, peak_value, warmup_steps),
                         cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)},
                        {warmup_steps});
}

Schedule sgdr_schedule(const std::vector<WarmupCosineDecay>& cycles) {
  std::vector<Schedule> schedules;
  std::vector<std::int64_t> boundaries;
  std::int64_t end = 0;
  for (const WarmupCosineDecay& cycle : cycles) {
    if (!schedules.empty()) boundaries.push_back(end);
    schedules.push_back(warmup_cosine_decay_schedule(cycle.init_value, cycle.peak_value, cycle.warmup_steps,
                                                     cycle.decay_steps, cycle.end_value, cycle.exponent));
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
