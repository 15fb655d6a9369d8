// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optim.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

struct Params {
  Array b, w;
};

/// Five steps of gradients that the parameters and the step decide.
template <class Optimizer>
Function steps(Optimizer optimizer) {
  return [optimizer](const Arrays& a) {
    Params params{a[1], a[0]};
    auto state = optimizer.init(params);
    for (int i = 0; i < 5; ++i) {
      Params grads = tree::map([&](const Array& p) { return p * 0.5 - (i + 1) * 0.125; }, params);
      auto [updates, next] = optimizer.update(grads, state, params);
      params = optim::apply_updates(params, updates);
      state = next;
    }
    return Arrays{params.w, params.b};
  };
}

Function of_counts(optim::Schedule schedule) {
  return [schedule](const Arrays& a) { return Arrays{vmap(schedule)(a[0])}; };
}

}  // namespace

void add_optim(Functions& all) {
  using namespace optim;
  const Schedule falling = linear_schedule(0.5, 0.125, 4);
  all["optim::sgd"] = steps(sgd(0.25));
  all["optim::sgd(momentum)"] = steps(sgd({.learning_rate = 0.25, .momentum = 0.9}));
  all["optim::sgd(nesterov)"] = steps(sgd({.learning_rate = 0.25, .momentum = 0.9, .nesterov = true}));
  all["optim::sgd(schedule)"] = steps(sgd(falling));
  all["optim::adam"] = steps(adam(0.125));
  all["optim::adamw"] = steps(adamw({.learning_rate = 0.125, .weight_decay = 0.25}));
  all["optim::adamw(mask)"] = steps(adamw(
      {.learning_rate = falling, .weight_decay = 0.25, .mask = [](const std::string& path, const Array&) {
         return path == "w";
       }}));
  all["optim::lion"] = steps(lion({.learning_rate = 0.125, .weight_decay = 0.25}));
  all["optim::rmsprop"] = steps(rmsprop(0.125));
  all["optim::adagrad"] = steps(adagrad(0.5));
  all["optim::chain(clip_by_global_norm, adam)"] =
      steps(chain(ClipByGlobalNorm{1.0}, adam(constant_schedule(0.125))));
  all["optim::chain(clip, trace, scale)"] = steps(chain(optim::clip(0.25), optim::trace(0.5), scale(-0.5)));
  all["optim::multi_steps"] = steps(multi_steps(adam(0.125), 2));
  all["optim::global_norm"] = [](const Arrays& a) { return Arrays{global_norm(a)}; };
  all["optim::constant_schedule"] = of_counts(constant_schedule(0.25));
  all["optim::linear_schedule"] = of_counts(linear_schedule(1.0, 0.25, 8, 2));
  all["optim::polynomial_schedule"] = of_counts(polynomial_schedule(
      {.init_value = 1.0, .end_value = 0.25, .power = 2, .transition_steps = 8, .transition_begin = 2}));
  all["optim::exponential_decay"] = of_counts(exponential_decay(1.0, 4, 0.5, {.transition_begin = 2}));
  all["optim::exponential_decay(staircase)"] =
      of_counts(exponential_decay(1.0, 4, 0.5, {.staircase = true, .end_value = 0.125}));
  all["optim::cosine_decay_schedule"] =
      of_counts(cosine_decay_schedule({.init_value = 1.0, .decay_steps = 10, .alpha = 0.125}));
  all["optim::warmup_cosine_decay_schedule"] = of_counts(warmup_cosine_decay_schedule(
      {.init_value = 0.0, .peak_value = 1.0, .warmup_steps = 4, .decay_steps = 14, .end_value = 0.125}));
  all["optim::piecewise_constant_schedule"] =
      of_counts(piecewise_constant_schedule(1.0, {{3, 0.5}, {10, 0.25}}));
  all["optim::join_schedules"] =
      of_counts(join_schedules({linear_schedule(0.0, 1.0, 5), constant_schedule(0.5)}, {5}));
}

}  // namespace lockstep::golden
