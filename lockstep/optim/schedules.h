// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/function.h"

/// Schedules, with optax's names and numbers: functions from the number of updates done, an i32 scalar, to a
/// number, a scalar of f32, or of f64 for parameters of f64. They work inside of jit and outside.
namespace lockstep::optim {

/// Made of any function of the count. One that also takes a dtype is told which one is wanted, f32 or f64;
/// the result of another one is converted.
class Schedule {
 public:
  Schedule() = default;
  template <class F>
  requires std::is_invocable_r_v<Array, F&, const Array&, DType> &&(!std::same_as<F, Schedule>)Schedule(F at)
      : at_(std::move(at)) {}
  template <class F>
  requires std::is_invocable_r_v<Array, F&, const Array&> &&(!std::same_as<F, Schedule>)Schedule(F at)
      : at_([at = std::move(at)](const Array& count, DType) { return at(count); }) {}

  Array operator()(const Array& count, DType dtype = DType::kF32) const { return at_(count, dtype); }

 private:
  std::function<Array(const Array& count, DType dtype)> at_;
};

Schedule constant_schedule(double value);

/// init_value until transition_begin, then linearly to end_value over transition_steps, then end_value.
Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin = 0);

/// As linear_schedule, but along (1 - progress)^power.
struct PolynomialSchedule {
  double init_value, end_value, power;
  std::int64_t transition_steps, transition_begin = 0;
};
Schedule polynomial_schedule(const PolynomialSchedule& options);
[[deprecated("name the options: polynomial_schedule({.init_value = 1, ...})")]] Schedule polynomial_schedule(
    double init_value, double end_value, double power, std::int64_t transition_steps,
    std::int64_t transition_begin = 0);

struct ExponentialDecayOptions {
  std::int64_t transition_begin = 0;
  bool staircase = false;                ///< use only integer exponents
  std::optional<double> end_value = {};  ///< a bound that the values do not pass
};

/// init_value * decay_rate^(count / transition_steps).
Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           ExponentialDecayOptions options = {});

/// From init_value to alpha * init_value over decay_steps, along half a cosine to the power of `exponent`.
/// Throws Error unless decay_steps is positive.
struct CosineDecay {
  double init_value;
  std::int64_t decay_steps;
  double alpha = 0, exponent = 1;
};
Schedule cosine_decay_schedule(const CosineDecay& options);
Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps);
[[deprecated("name the options: cosine_decay_schedule({.init_value = 1, ...})")]] Schedule
cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha, double exponent = 1);

/// Linearly from init_value to peak_value over warmup_steps, then cosine_decay_schedule to end_value.
/// decay_steps include the warmup.
struct WarmupCosineDecay {
  double init_value, peak_value;
  std::int64_t warmup_steps, decay_steps;
  double end_value = 0, exponent = 1;
};
Schedule warmup_cosine_decay_schedule(const WarmupCosineDecay& options);
[[deprecated("name the options: warmup_cosine_decay_schedule({.init_value = 0, ...})")]] Schedule
warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                             std::int64_t decay_steps, double end_value = 0, double exponent = 1);

/// Several cycles of warmup_cosine_decay_schedule (Loshchilov and Hutter, "SGDR", 2016). Each starts
/// decay_steps after the start of the one before.
Schedule sgdr_schedule(const std::vector<WarmupCosineDecay>& cycles);

/// Linearly from init_value to peak_value over warmup_steps. Then warmup_constant_schedule stays at
/// peak_value, and warmup_exponential_decay_schedule continues with exponential_decay.
Schedule warmup_constant_schedule(double init_value, double peak_value, std::int64_t warmup_steps);
Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           ExponentialDecayOptions options = {});

/// init_value, multiplied by each scale whose boundary the count has reached.
Schedule piecewise_constant_schedule(double init_value,
                                     const std::map<std::int64_t, double>& boundaries_and_scales);

/// Uses schedule i from boundary i - 1 on, with counts that start at that boundary.
Schedule join_schedules(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries);

}  // namespace lockstep::optim
