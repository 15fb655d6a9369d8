// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/array/device_put.h"
#include "lockstep/array/trace.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep::optim {
namespace {

using ::testing::ElementsAre;

/// The process has two devices, for what is spread over both.
class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kTwoDevices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

struct Params {
  Array w, b;
};

Params first_params() { return {array({{1.f, -2.f}, {0.5f, 3.f}}), array({0.1f, -0.2f})}; }

/// Made up, but different at each step.
Params gradients(int step, const Params& p) { return {sin(p.w * (step + 1)), p.b * p.b - 0.3}; }

template <class Optimizer>
std::vector<float> after_four_steps(const Optimizer& optimizer) {
  Params params = first_params();
  auto state = optimizer.init(params);
  for (int step = 0; step < 4; ++step) {
    auto [updates, next] = optimizer.update(gradients(step, params), state, params);
    params = apply_updates(params, updates);
    state = next;
  }
  std::vector<float> values = params.w.template to_host<float>(), b = params.b.template to_host<float>();
  values.insert(values.end(), b.begin(), b.end());
  return values;
}

struct Case {
  const char* name;
  std::vector<float> (*run)();
  std::vector<float> expected;
};

// The expected values are those of optax 0.2.8.
TEST(Optimizers, FourSteps_GiveWhatOptaxGives) {
  const Case kCases[] = {
      {"sgd",
       [] { return after_four_steps(sgd(0.1)); },
       {0.7443471550941467f, -1.9092261791229248f, 0.19284047186374664f, 3.040149688720703f,
        0.21144311130046844f, -0.09060991555452347f}},
      {"momentum",
       [] { return after_four_steps(sgd({.learning_rate = 0.1, .momentum = 0.9})); },
       {0.2093529999256134f, -1.867269515991211f, -0.08892616629600525f, 3.018483877182007f,
        0.3504166901111603f, 0.04635709524154663f}},
      {"nesterov",
       [] { return after_four_steps(sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true})); },
       {-0.11473223567008972f, -1.789991855621338f, -0.13267262279987335f, 3.0796895027160645f,
        0.4178686738014221f, 0.13846293091773987f}},
      {"adam",
       [] { return after_four_steps(adam(1e-2)); },
       {0.9678354859352112f, -1.9879246950149536f, 0.46040651202201843f, 2.993004083633423f,
        0.13998138904571533f, -0.1599705070257187f}},
      {"adamw",
       [] { return after_four_steps(adamw({.learning_rate = 1e-2, .weight_decay = 0.1})); },
       {0.963810384273529f, -1.980020523071289f, 0.45846763253211975f, 2.9811272621154785f,
        0.1395222693681717f, -0.15923121571540833f}},
  };
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    std::vector<float> found = each.run();
    ASSERT_EQ(found.size(), each.expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], each.expected[i], 2e-6) << i;
  }
}

TEST(Optimizers, TheState_HasTheParametersShardings) {
  Mesh mesh = make_mesh({{"data", 2}});
  const NamedSharding rows(mesh, P("data")), replicated(mesh, P());
  Params params{device_put(first_params().w, rows), device_put(first_params().b, replicated)};
  const AdamState<Params> state = adam(0.1).init(params);
  EXPECT_TRUE(state.mu.w.sharding() == rows) << state.mu.w.sharding().to_string();
  EXPECT_TRUE(state.nu.b.sharding() == replicated) << state.nu.b.sharding().to_string();
  EXPECT_TRUE(state.count.is_fully_replicated());
  EXPECT_EQ(state.count.addressable_shards().size(), 2u);
  auto [updates, next] = adam(0.1).update(params, state, params);
  EXPECT_TRUE(next.mu.w.sharding() == rows) << next.mu.w.sharding().to_string();
  EXPECT_TRUE(next.count.sharding() == state.count.sharding());
  EXPECT_TRUE(apply_updates(params, updates).w.sharding() == rows);
  EXPECT_EQ(next.count.item<std::int32_t>(), 1);
}

TEST(Optimizers, States_AreTrees) {
  EXPECT_EQ(tree::leaves(adam(0.1).init(first_params())).size(), 5u);
  EXPECT_EQ(tree::leaves(sgd(0.1).init(first_params())).size(), 0u);
  EXPECT_EQ(tree::leaves(sgd({.learning_rate = 0.1, .momentum = 0.9}).init(first_params())).size(), 2u);
}

TEST(Optimizers, AdamwWithoutTheParameters_IsAnError) {
  Params params = first_params();
  EXPECT_THROW(adamw(0.1).update(params, adamw(0.1).init(params)), Error);
  EXPECT_NO_THROW(adam(0.1).update(params, adam(0.1).init(params)));
}

TEST(Optimizers, RulesByPath_AreAMask) {
  const Params params = first_params(), none = internal::zeros_of(params);
  const auto decay = add_decayed_weights(0.5, tree::Rules<bool>{{"w", true}, {"*", false}});
  const Params updates = decay.update(none, decay.init(params), params).first;
  EXPECT_EQ(updates.w.to_host<float>(), (params.w * 0.5).to_host<float>());
  EXPECT_EQ(updates.b.to_host<float>(), none.b.to_host<float>());
  const auto missing = add_decayed_weights(0.5, tree::Rules<bool>{{"w", true}});
  EXPECT_THROW(missing.update(none, missing.init(params), params), ShapeError);
}

TEST(Optimizers, Updates_KeepTheDTypesOfTheParameters) {
  Params params{zeros({2}, bfloat16), zeros({2})};
  auto [updates, state] = adam(0.1).update(params, adam(0.1).init(params));
  EXPECT_EQ(state.mu.w.dtype(), bfloat16);
  EXPECT_EQ(apply_updates(params, updates).w.dtype(), bfloat16);
}

TEST(Optimizers, Errors_PointAtTheUsersLine) {
  Params params = first_params(), other{zeros({3}), zeros({2})};
  try {
    apply_updates(params, other);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("optim_test.cc:"));
  }
}

TEST(GlobalNorm, IsTheNormOfAllArraysTogether) {
  EXPECT_NEAR(global_norm(first_params()).item<float>(), 3.781534194946289, 1e-6);
  const Params clipped = clip_by_global_norm(first_params(), 1.0);
  EXPECT_NEAR(clipped.b.to_host<float>()[0], 0.026444291695952415, 1e-8);
  EXPECT_THAT(clip_by_global_norm(first_params(), 4.0).b.to_host<float>(), ElementsAre(0.1f, -0.2f));
}

}  // namespace
}  // namespace lockstep::optim
