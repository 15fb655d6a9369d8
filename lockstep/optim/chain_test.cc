// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/array/trace.h"
#include "lockstep/base/error.h"
#include "lockstep/optim/optim.h"

// Expected numbers are what optax 0.2.8 gives.
namespace lockstep::optim {
namespace {

struct Params {
  Array w, b;
};

Params first_params() { return {array({{1.f, -2.f}, {0.5f, 3.f}}), array({0.1f, -0.2f})}; }
Params gradients(int step, const Params& p) { return {sin(p.w * (step + 1)), p.b * p.b - 0.3}; }

template <class Optimizer>
std::vector<float> after_steps(const Optimizer& optimizer, int steps) {
  Params params = first_params();
  auto state = optimizer.init(params);
  for (int step = 0; step < steps; ++step) {
    auto [updates, next] = optimizer.update(gradients(step, params), state, params);
    params = apply_updates(params, updates);
    state = next;
  }
  std::vector<float> values = params.w.template to_host<float>(), b = params.b.template to_host<float>();
  values.insert(values.end(), b.begin(), b.end());
  return values;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(Chain, RmspropAdagradAndLion_GiveWhatOptaxGives) {
  expect_near(after_steps(rmsprop(0.01), 4),
              {0.950440466f, -1.97575986f, 0.397611141f, 2.99781322f, 0.189570904f, -0.107553869f}, 2e-6);
  expect_near(after_steps(adagrad(0.1), 4),
              {0.793510616f, -1.9287672f, 0.213138074f, 3.04806066f, 0.302977353f, 0.0170599408f}, 2e-6);
  expect_near(after_steps(lion(0.01), 4),
              {0.979960561f, -1.99992001f, 0.459980607f, 2.99988031f, 0.139995396f, -0.159992605f}, 2e-6);
}

TEST(Chain, AdamwOfAScheduleWithAMask_GivesWhatOptaxGives) {
  const Schedule schedule = warmup_cosine_decay_schedule(
      {.init_value = 0, .peak_value = 0.1, .warmup_steps = 2, .decay_steps = 6, .end_value = 0.01});
  const Mask weights = [](const std::string& path, const Array&) { return path == "w"; };
  expect_near(after_steps(adamw({.learning_rate = schedule, .weight_decay = 0.1, .mask = weights}), 4),
              {0.783879042f, -1.94000077f, 0.256103963f, 2.94176507f, 0.33566016f, 0.0374082625f}, 5e-6);
}

TEST(Chain, SeveralTransforms_AreAppliedInOrder) {
  auto optimizer = chain(clip_by_global_norm(0.5), trace(0.9), clip(0.3), scale(-0.1));
  expect_near(after_steps(optimizer, 4),
              {0.880000114f, -1.95326531f, 0.392773449f, 2.99426031f, 0.187762499f, -0.117216542f}, 2e-6);
}

TEST(MultiSteps, TakesTheMeanOfSeveralGradients) {
  expect_near(after_steps(multi_steps(adam(Schedule(constant_schedule(0.05))), 2), 5),
              {0.923840523f, -1.90548873f, 0.400407612f, 3.09816527f, 0.19992964f, -0.0999424979f}, 5e-6);
}

TEST(Schedules, GiveWhatOptaxGives) {
  struct Case {
    const char* name;
    Schedule schedule;
    std::vector<float> expected;
  };
  const Case cases[] = {
      {"linear",
       linear_schedule(1, 0.2, 5, 1),
       {1.f, 1.f, 0.840000033f, 0.680000007f, 0.519999981f, 0.360000014f, 0.200000003f, 0.200000003f,
        0.200000003f}},
      {"polynomial",
       polynomial_schedule(
           {.init_value = 1, .end_value = 0.2, .power = 2, .transition_steps = 5, .transition_begin = 1}),
       {1.f, 1.f, 0.712000012f, 0.488000035f, 0.328000009f, 0.231999993f, 0.200000003f, 0.200000003f,
        0.200000003f}},
      {"exponential",
       exponential_decay(1, 2, 0.5, {.transition_begin = 1, .staircase = true, .end_value = 0.2}),
       {1.f, 1.f, 1.f, 0.5f, 0.5f, 0.25f, 0.25f, 0.200000003f, 0.200000003f}},
      {"cosine",
       cosine_decay_schedule({.init_value = 1, .decay_steps = 6, .alpha = 0.1, .exponent = 2}),
       {1.f, 0.883461475f, 0.606249988f, 0.324999958f, 0.156249985f, 0.104038566f, 0.100000001f, 0.100000001f,
        0.100000001f}},
      {"warm-up",
       warmup_cosine_decay_schedule(
           {.init_value = 0, .peak_value = 0.1, .warmup_steps = 2, .decay_steps = 6, .end_value = 0.01}),
       {0.f, 0.0500000007f, 0.100000001f, 0.0868198127f, 0.054999996f, 0.0231801961f, 0.0100000007f,
        0.0100000007f, 0.0100000007f}},
      {"piecewise",
       piecewise_constant_schedule(1, {{2, 0.5}, {5, 0.1}}),
       {1.f, 1.f, 0.5f, 0.5f, 0.5f, 0.0500000007f, 0.0500000007f, 0.0500000007f, 0.0500000007f}},
      {"constant", constant_schedule(0.5), std::vector<float>(9, 0.5f)},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    for (int count = 0; count < 9; ++count) {
      Array value = each.schedule(Array(count) * 1);
      EXPECT_EQ(value.dtype(), float32);
      EXPECT_NEAR(value.item<float>(), each.expected[static_cast<std::size_t>(count)], 2e-7) << count;
    }
  }
}

TEST(Schedules, WithoutSteps_AreErrors) {
  EXPECT_THROW(cosine_decay_schedule(1, 0), Error);
  EXPECT_THROW(join_schedules({constant_schedule(1)}, {3}), Error);
}

}  // namespace
}  // namespace lockstep::optim
