// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/chain.h"
#include "lockstep/optim/scaling.h"
#include "lockstep/optim/schedules.h"
#include "lockstep/optim/sgd.h"

/// Optimizers that are chains of transformations (chain.h, scaling.h), with optax's names and numbers.
namespace lockstep::optim {

/// Options of the optimizers below, by name: `lion({.learning_rate = 1e-4, .weight_decay = 0.1})`. `Rate` is
/// double or Schedule.
template <class Rate>
struct RmspropOptions {
  Rate learning_rate;
  double decay = 0.9, eps = 1e-8, initial_scale = 0;
};
template <class Rate>
struct AdagradOptions {
  Rate learning_rate;
  double initial_accumulator_value = 0.1, eps = 1e-7;
};
template <class Rate>
struct LionOptions {
  Rate learning_rate;
  double b1 = 0.9, b2 = 0.99, weight_decay = 1e-3;
  Mask mask = {};
};
template <class Rate>
struct LambOptions {
  Rate learning_rate;
  double b1 = 0.9, b2 = 0.999, eps = 1e-6, weight_decay = 0;
  Mask mask = {};
};
template <>
struct AdamWOptions<Schedule> {
  Schedule learning_rate;
  double b1 = 0.9, b2 = 0.999, eps = 1e-8, weight_decay = 1e-4;
  Mask mask = {};
};
struct SgdScheduleOptions {
  Schedule learning_rate;
  double momentum = 0;
  bool nesterov = false;
};

namespace internal {

template <class Rate>
auto rmsprop_of(RmspropOptions<Rate> o) {
  return chain(scale_by_rms({o.decay, o.eps, o.initial_scale}), scale_by_learning_rate(o.learning_rate));
}
template <class Rate>
auto adagrad_of(AdagradOptions<Rate> o) {
  return chain(scale_by_rss({o.initial_accumulator_value, o.eps}), scale_by_learning_rate(o.learning_rate));
}
template <class Rate>
auto lion_of(LionOptions<Rate> o) {
  return chain(scale_by_lion({o.b1, o.b2}), add_decayed_weights(o.weight_decay, std::move(o.mask)),
               scale_by_learning_rate(o.learning_rate));
}
template <class Rate>
auto lamb_of(LambOptions<Rate> o) {
  return chain(scale_by_adam({o.b1, o.b2, o.eps}), add_decayed_weights(o.weight_decay, std::move(o.mask)),
               scale_by_trust_ratio(), scale_by_learning_rate(o.learning_rate));
}

}  // namespace internal

/// Optimizers made of these transformations. Templates, so that only programs that call one compile its
/// chain.
template <class = void>
auto rmsprop(RmspropOptions<double> options) {
  return internal::rmsprop_of(std::move(options));
}
template <class = void>
auto rmsprop(RmspropOptions<Schedule> options) {
  return internal::rmsprop_of(std::move(options));
}
template <class Rate>
auto rmsprop(Rate learning_rate) {
  return internal::rmsprop_of(RmspropOptions<Rate>{std::move(learning_rate)});
}
template <class Rate>
[[deprecated("name the options: rmsprop({.learning_rate = 1e-3, .decay = 0.9})")]] auto rmsprop(
    Rate learning_rate, double decay, double eps = 1e-8, double initial_scale = 0) {
  return internal::rmsprop_of(RmspropOptions<Rate>{std::move(learning_rate), decay, eps, initial_scale});
}

template <class = void>
auto adagrad(AdagradOptions<double> options) {
  return internal::adagrad_of(std::move(options));
}
template <class = void>
auto adagrad(AdagradOptions<Schedule> options) {
  return internal::adagrad_of(std::move(options));
}
template <class Rate>
auto adagrad(Rate learning_rate) {
  return internal::adagrad_of(AdagradOptions<Rate>{std::move(learning_rate)});
}
template <class Rate>
[[deprecated("name the options: adagrad({.learning_rate = 0.1, .eps = 1e-7})")]] auto adagrad(
    Rate learning_rate, double initial_accumulator_value, double eps = 1e-7) {
  return internal::adagrad_of(AdagradOptions<Rate>{std::move(learning_rate), initial_accumulator_value, eps});
}

template <class = void>
auto lion(LionOptions<double> options) {
  return internal::lion_of(std::move(options));
}
template <class = void>
auto lion(LionOptions<Schedule> options) {
  return internal::lion_of(std::move(options));
}
template <class Rate>
auto lion(Rate learning_rate) {
  return internal::lion_of(LionOptions<Rate>{std::move(learning_rate)});
}
template <class Rate>
[[deprecated("name the options: lion({.learning_rate = 1e-4, .weight_decay = 0.1})")]] auto lion(
    Rate learning_rate, double b1, double b2 = 0.99, double weight_decay = 1e-3, Mask mask = {}) {
  return internal::lion_of(
      LionOptions<Rate>{std::move(learning_rate), b1, b2, weight_decay, std::move(mask)});
}

/// LAMB (You and others, "Large Batch Optimization for Deep Learning", 2020): Adam's direction plus weight
/// decay, scaled by the trust ratio.
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

/// sgd, adam and adamw with a schedule as the learning rate.
template <class = void>
auto sgd(Schedule learning_rate) {
  return chain(scale_by_learning_rate(std::move(learning_rate)));
}
template <class = void>
auto sgd(SgdScheduleOptions options) {
  return chain(trace(options.momentum, options.nesterov),
               scale_by_learning_rate(std::move(options.learning_rate)));
}
template <class = void>
[[deprecated("name the options: sgd({.learning_rate = schedule, .momentum = 0.9})")]] auto sgd(
    Schedule learning_rate, double momentum, bool nesterov = false) {
  return sgd(SgdScheduleOptions{std::move(learning_rate), momentum, nesterov});
}

template <class = void>
auto adam(AdamOptions<Schedule> options) {
  return chain(scale_by_adam({options.b1, options.b2, options.eps}),
               scale_by_learning_rate(std::move(options.learning_rate)));
}
template <class = void>
auto adam(Schedule learning_rate) {
  return adam(AdamOptions<Schedule>{std::move(learning_rate)});
}
template <class = void>
[[deprecated("name the options: adam({.learning_rate = schedule, .b1 = 0.9})")]] auto adam(
    Schedule learning_rate, double b1, double b2 = 0.999, double eps = 1e-8) {
  return adam(AdamOptions<Schedule>{std::move(learning_rate), b1, b2, eps});
}

template <class = void>
auto adamw(AdamWOptions<Schedule> options) {
  return chain(scale_by_adam({options.b1, options.b2, options.eps}),
               add_decayed_weights(options.weight_decay, std::move(options.mask)),
               scale_by_learning_rate(std::move(options.learning_rate)));
}
template <class = void>
auto adamw(Schedule learning_rate) {
  return adamw(AdamWOptions<Schedule>{std::move(learning_rate)});
}
template <class = void>
[[deprecated("name the options: adamw({.learning_rate = schedule, .weight_decay = 0.1})")]] auto adamw(
    Schedule learning_rate, double b1, double b2 = 0.999, double eps = 1e-8, double weight_decay = 1e-4,
    Mask mask = {}) {
  return adamw(AdamWOptions<Schedule>{std::move(learning_rate), b1, b2, eps, weight_decay, std::move(mask)});
}

}  // namespace lockstep::optim
