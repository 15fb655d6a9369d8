#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/array/array.h"

/// Schedules, with optax's names and numbers: functions from the count of updates done, an i32 scalar, to a
/// number, an f32 scalar. They may be called inside of jit and outside.
namespace lockstep::optim {

using Schedule = std::function<Array(const Array& count)>;

Schedule constant_schedule(double value);

/// From init_value to end_value in a straight line over the steps, after transition_begin; then end_value.
Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin = 0);

/// The same along (1 - progress)^power.
Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin = 0);

struct ExponentialDecayOptions {
  std::int64_t transition_begin = 0;
  bool staircase = false;                ///< only whole powers
  std::optional<double> end_value = {};  ///< not beyond it
};

/// init_value * decay_rate^(count / transition_steps).
Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           ExponentialDecayOptions options = {});

/// From init_value along half a cosine (to the power of exponent) to alpha * init_value over decay_steps;
/// Error where those are not above 0.
Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha = 0,
                               double exponent = 1);

/// In a straight line from init_value to peak_value over warmup_steps, then cosine_decay_schedule to
/// end_value until decay_steps, which count from the beginning.
Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value = 0, double exponent = 1);

/// Several of warmup_cosine_decay_schedule one after the other (Loshchilov and Hutter, "SGDR", 2016): each
/// decay_steps after the one before.
struct WarmupCosineDecay {
  double init_value, peak_value;
  std::int64_t warmup_steps, decay_steps;
  double end_value = 0, exponent = 1;
};
Schedule sgdr_schedule(const std::vector<WarmupCosineDecay>& cycles);

/// In a straight line from init_value to peak_value over warmup_steps, then peak_value; or exponential_decay
/// from there.
Schedule warmup_constant_schedule(double init_value, double peak_value, std::int64_t warmup_steps);
Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           ExponentialDecayOptions options = {});

/// init_value, times each scale whose boundary the count has reached.
Schedule piecewise_constant_schedule(double init_value,
                                     const std::map<std::int64_t, double>& boundaries_and_scales);

/// Schedule i from boundary i - 1 on, counting from there.
Schedule join_schedules(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries);

}  // namespace lockstep::optim
