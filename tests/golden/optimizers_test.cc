// SPDX-License-Identifier: Apache-2.0
// Optimizers, schedules, loss scales and the CTC loss against what optax and jmp give for them
// (optimizers.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/nn/losses.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optim.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "tests/golden/family.h"

namespace lockstep {
namespace {

using golden::compared;
using golden::expect_stored;
using golden::numbers;
using golden::Stored;
using golden::Tolerance;
using testing::error_of;
using ::testing::HasSubstr;

void expect_optaxs(const std::string& name, const Array& found, const Tolerance& tolerance = {2e-5, 2e-6}) {
  golden::expect_named(name, found, tolerance);
}

/// Where the file has numbers of f64: they are the same in f32, as near as f32 can be.
void expect_optaxs_of(DType dtype, const std::string& name, const Array& found) {
  EXPECT_EQ(found.dtype(), dtype) << name;
  const bool rounded = name.starts_with("adafactor");  // optax computes its decay in f32
  const Tolerance exact(rounded ? 5e-7 : 1e-12, rounded ? 1e-8 : 1e-13);
  expect_optaxs(name, astype(found, float64), dtype == float64 ? exact : Tolerance(2e-5, 2e-6));
}
constexpr DType kBoth[] = {DType::kF32, DType::kF64};

struct Params {
  Array b, k, w;
};
Params initial(DType dtype = DType::kF32) {
  return {astype(numbers({6}, 1), dtype), astype(numbers({2, 3, 4}, 2), dtype),
          astype(numbers({4, 6}, 3), dtype)};
}

Params gradients(const Params& params, int i) {
  return tree::map([&](const Array& p) { return p * 0.5 - (i + 1) * 0.125; }, params);
}

/// Five steps of gradients that the parameters and the step decide, as one program.
template <class Optimizer>
void expect_steps(const std::string& name, const Optimizer& optimizer) {
  auto steps = jit([&](Params params) {
    auto state = optimizer.init(params);
    for (int i = 0; i < 5; ++i) {
      auto [updates, next] = optimizer.update(gradients(params, i), state, params);
      params = optim::apply_updates(params, updates);
      state = next;
    }
    return params;
  });
  for (DType dtype : kBoth) {
    for (const auto& [path, value] : tree::leaves_with_path(steps(initial(dtype))))
      expect_optaxs_of(dtype, name + ": " + path, value);
  }
}

TEST(Optimizers, GiveOptaxsSteps) {
  using namespace optim;
  const Schedule falling = linear_schedule(0.5, 0.125, 4);
  expect_steps("adam", adam(0.125));
  expect_steps("adam(b1=0)", adam({.learning_rate = 0.125, .b1 = 0}));
  expect_steps(
      "adamw(schedule)",
      adamw({.learning_rate = exponential_decay(0.3, 3, 0.7), .b1 = 0.85, .b2 = 0.99, .weight_decay = 0.1}));
  expect_steps("sgd(schedule)", sgd({.learning_rate = piecewise_constant_schedule(0.3, {{1, 0.7}, {3, 0.1}}),
                                     .momentum = 0.9,
                                     .nesterov = true}));
  expect_steps("rmsprop", rmsprop(0.1));
  expect_steps("adagrad", adagrad(0.1));
  expect_steps("lion", lion(0.1));
  expect_steps("lamb", lamb(0.125));
  expect_steps("lamb(weight_decay)", lamb({.learning_rate = falling, .weight_decay = 0.25}));
  expect_steps("adafactor", adafactor(0.125));
  expect_steps("adafactor(factored)", adafactor(0.125, {.min_dim_size_to_factor = 3}));
  expect_steps("adafactor(all options)",
               adafactor(falling, {.min_dim_size_to_factor = 3,
                                   .decay_rate = 0.7,
                                   .multiply_by_parameter_scale = false,
                                   .clipping_threshold = 0.5,
                                   .momentum = 0.9,
                                   .weight_decay_rate = 0.01,
                                   .weight_decay_mask = tree::Rules<bool>{{"b", false}, {"*", true}}}));
  expect_steps("adafactor(no learning rate)", adafactor(std::nullopt, {.clipping_threshold = std::nullopt}));
  expect_steps("chain(ema, scale)", chain(ema(0.75), scale(-0.25)));
  expect_steps("chain(ema(debias=False), scale)", chain(ema(0.75, false), scale(-0.25)));
  expect_steps("chain(scale, apply_every)", chain(scale(-0.25), apply_every(2)));
  expect_steps("chain(adaptive_grad_clip, sgd)", chain(adaptive_grad_clip(0.25), sgd(0.5)));
  expect_steps("chain(clip_by_block_rms, sgd)", chain(clip_by_block_rms(0.25), sgd(0.5)));
  expect_steps("chain(scale_by_param_block_rms, sgd)", chain(scale_by_param_block_rms(), sgd(0.5)));
  expect_steps("inject_hyperparams(adam)",
               inject_hyperparams([](const Hyperparams& h) { return adam(h["learning_rate"]); },
                                  {{"learning_rate", falling}}));
  const Array kernel = numbers({3, 2, 2, 3}, 4), gradient = numbers({3, 2, 2, 3}, 5);
  expect_optaxs("adaptive_grad_clip(of a convolution)",
                adaptive_grad_clip(0.125).update(gradient, {}, kernel).first);
  EXPECT_THAT(
      error_of<ShapeError>([] {
        const Array x = numbers({1, 2, 2, 1, 2, 2}, 1);
        adaptive_grad_clip(0.125).update(x, {}, x);
      }),
      HasSubstr("[adaptive_grad_clip] expected parameters of up to 5 dimensions, got f32[1,2,2,1,2,2]"));
}

TEST(PartsOfTrees, GiveOptaxsSteps) {
  using namespace optim;
  const tree::Rules<bool> not_b{{"b", false}, {"*", true}};
  expect_steps("masked(adam)", masked(adam(0.125), not_b));
  expect_steps(
      "multi_transform",
      multi_transform(
          tree::Rules<std::string>{{"b", "fast"}, {"k", "slow"}, {"*", "frozen"}},
          std::pair("slow", adamw({.learning_rate = linear_schedule(0.5, 0.125, 4), .weight_decay = 0.1})),
          std::pair("fast", sgd({.learning_rate = 0.25, .momentum = 0.9})),
          std::pair("frozen", set_to_zero())));
  expect_steps("chain(adam, masked(set_to_zero))",
               chain(adam(0.125), masked(set_to_zero(),
                                         [](const std::string& path, const Array&) { return path == "b"; })));
  const auto inner =
      chain(trace(0.9), add_decayed_weights(0.1, tree::Rules<bool>{{"b", true}, {"w", false}}));
  expect_steps("chain(clip, masked(chain))",
               chain(clip_by_global_norm(0.5), masked(inner, tree::Rules<bool>{{"k", false}, {"*", true}}),
                     scale(-0.25)));
}

TEST(MeansOfWeights, EqualOptaxs) {
  for (DType dtype : kBoth) {
    const auto [mean, kept] = jit([](Params params) {
      Params mean = params, kept = params;
      for (int i = 0; i < 5; ++i) {
        params = tree::map([&](const Array& p) { return p * 0.75 - 0.125 * i; }, params);
        mean = optim::incremental_update(params, mean, 0.3);
        kept = optim::periodic_update(params, kept, full({}, i, int32), 3);
      }
      return std::pair(mean, kept);
    })(initial(dtype));
    expect_optaxs_of(dtype, "incremental_update: w", mean.w);
    expect_optaxs_of(dtype, "periodic_update: w", kept.w);
    // A step size that is an array.
    const Params params = initial(dtype);
    const Params other = tree::map([](const Array& p) { return p + 1; }, params);
    const Array half = full({}, 0.5, dtype);
    EXPECT_TRUE(array_equal(optim::incremental_update(other, params, half).w, params.w + 0.5).item<bool>());
  }
}

TEST(InjectHyperparams, AChangedHyperparameter_IsUsedWithoutANewTrace) {
  using namespace optim;
  auto optimizer = inject_hyperparams([](const Hyperparams& h) { return sgd(h["learning_rate"]); },
                                      {{"learning_rate", 0.5}});
  Params params = initial();
  auto state = optimizer.init(params);
  int traces = 0;
  auto step = jit([&](Params params, decltype(state) state, Params grads) {
    ++traces;
    auto [updates, next] = optimizer.update(grads, state, params);
    return std::pair(apply_updates(params, updates), next);
  });
  for (int i = 0; i < 4; ++i) {
    if (i == 2) state.hyperparams["learning_rate"] = full({}, 0.125, float32);
    std::tie(params, state) = step(params, state, gradients(params, i));
  }
  expect_optaxs_of(float32, "inject_hyperparams(changed): w", params.w);
  EXPECT_EQ(traces, 1);
  EXPECT_THAT(error_of<Error>([&] {
                inject_hyperparams([](const Hyperparams& h) { return sgd(h["rate"]); },
                                   {{"learning_rate", 0.5}})
                    .init(params);
              }),
              HasSubstr("[inject_hyperparams] expected one of learning_rate, got \"rate\""));
}

TEST(Lookahead, GivesOptaxsFastAndSlowParameters) {
  using namespace optim;
  for (bool reset : {false, true}) {
    const std::string name = reset ? "lookahead(reset_state)" : "lookahead";
    const auto optimizer = lookahead(adam(0.125), 2, 0.5, reset);
    auto steps = jit([&](LookaheadParams<Params> params) {
      auto state = optimizer.init(params);
      for (int i = 0; i < 5; ++i) {
        auto [updates, next] = optimizer.update(gradients(params.fast, i), state, params);
        params = apply_updates(params, updates);
        state = next;
      }
      return params;
    });
    for (DType dtype : kBoth) {
      const auto last = steps(LookaheadParams<Params>::init_synced(initial(dtype)));
      expect_optaxs_of(dtype, name + ": fast w", last.fast.w);
      expect_optaxs_of(dtype, name + ": slow w", last.slow.w);
    }
  }
  EXPECT_THAT(error_of<Error>([] { lookahead(adam(0.125), 0, 0.5); }),
              HasSubstr("[lookahead] expected a period of 1 or more, got 0"));
}

TEST(Schedules, OfEveryKind_GiveOptaxsValues) {
  using namespace optim;
  const Array counts = array({0, 1, 3, 5, 9, 10, 14, 19, 40});
  auto expect = [&](const std::string& name, const Schedule& schedule) {
    for (DType dtype : kBoth) {
      auto of_dtype = [&](const Array& count) { return schedule(count, dtype); };
      expect_optaxs_of(dtype, name, vmap(of_dtype)(counts));
    }
  };
  expect("constant_schedule", constant_schedule(0.3));
  expect("exponential_decay", exponential_decay(0.3, 7, 0.9, {.transition_begin = 1, .end_value = 0.2}));
  expect("cosine_decay_schedule",
         cosine_decay_schedule({.init_value = 0.3, .decay_steps = 13, .alpha = 0.1, .exponent = 1.5}));
  expect("polynomial_schedule", polynomial_schedule({.init_value = 0.3,
                                                     .end_value = 0.1,
                                                     .power = 1.7,
                                                     .transition_steps = 11,
                                                     .transition_begin = 2}));
  expect("piecewise_constant_schedule", piecewise_constant_schedule(0.3, {{3, 0.7}, {9, 0.1}}));
  expect("sgdr_schedule", sgdr_schedule({{0.0, 1.0, 2, 8, 0.125}, {0.125, 0.5, 3, 12, 0.0, 2.0}}));
  expect("warmup_constant_schedule", warmup_constant_schedule(0.125, 1.0, 5));
  expect(
      "warmup_exponential_decay_schedule",
      warmup_exponential_decay_schedule(0.125, 1.0, 3, 4, 0.5, {.transition_begin = 2, .staircase = true}));
}

TEST(Adam, TheFirstStepInF32_HasFullPrecision) {
  // 1 - 0.999^1 in f32 is off by 1.3e-5.
  const Array p = zeros({1}), g = ones({1});
  const optim::Adam adam = optim::adam(1e-3);
  EXPECT_NEAR(adam.update(g, adam.init(p), p).first.item<float>(), -1e-3 / (1 + 1e-8), 1.2e-10);
  const optim::Ema ema = optim::ema(0.999);
  EXPECT_NEAR(ema.update(g, ema.init(p)).first.item<float>(), 1, 3e-7);
}

TEST(Schedules, AUsersSchedule_MayTakeTheDType) {
  const Array p = zeros({1}, float64), g = ones({1}, float64);
  const auto told = optim::sgd(
      optim::Schedule([](const Array& count, DType dtype) { return 0.1 * (1.0 + astype(count, dtype)); }));
  EXPECT_EQ(told.update(g, told.init(p), p).first.item<double>(), -0.1);
  const auto not_told = optim::sgd(optim::Schedule([](const Array& count) { return 0.125 * (1.0 + count); }));
  EXPECT_EQ(not_told.update(g, not_told.init(p), p).first.item<double>(), -0.125);
}

TEST(GlobalNorm, F16Gradients_DoNotOverflow) {
  const Array g = full({2, 512}, 400, float16);
  EXPECT_EQ(optim::global_norm(g).item<float>(), 12800);
  const Array clipped = optim::clip_by_global_norm(g, 12.8);
  EXPECT_EQ(clipped.dtype(), float16);
  EXPECT_NEAR(max(astype(clipped, float32)).item<float>(), 0.4, 4e-4);
  auto first = [&](const auto& optimizer) {
    const Array update = optimizer.update(g, optimizer.init(g), full_like(g, 300)).first;
    EXPECT_EQ(update.dtype(), float16);
    return max(astype(update, float32)).template item<float>();
  };
  EXPECT_NEAR(first(optim::scale_by_trust_ratio()), 300, 0.3);
  EXPECT_NEAR(first(optim::clip_by_block_rms(2)), 2, 2e-3);
  EXPECT_NEAR(first(optim::adaptive_grad_clip(0.5)), 150, 0.15);
}

TEST(DynamicLossScale, AfterFiniteAndOverflowingSteps_EqualsJmps) {
  auto scale = optim::dynamic_loss_scale(4, 2, 2);
  auto adjust =
      jit([](const optim::DynamicLossScale& scale, const Array& finite) { return scale.adjust(finite); });
  std::vector<float> seen;
  for (bool finite : {true, true, true, true, false, true, true, false, false, false, false, false}) {
    scale = adjust(scale, full({}, finite));
    seen.push_back(scale.loss_scale.item<float>());
    seen.push_back(static_cast<float>(scale.counter.item<std::int32_t>()));
  }
  expect_optaxs("DynamicLossScale", array(seen));
  EXPECT_THAT(error_of<TraceError>([&] { scale.adjust(ones({2})); }),
              HasSubstr("expected a predicate that is a bool scalar, got f32[2] (at optimizers_test.cc:"));
}

TEST(DynamicLossScale, KeepsSmallGradientsOfF16_AndSkipsStepsThatOverflow) {
  // The gradient of w is 2^-26, which f16 has not; scaled by 2^10 it is.
  auto gradient = jit([](const Array& w, const optim::DynamicLossScale& scale) {
    auto loss = [&](const Array& w) {
      return scale.scale(
          astype(sum(astype(w, float16) * full({1}, 0x1p-13, float16)) * Array(0x1p-13), float32));
    };
    const Array g = grad(loss)(w);
    return std::pair(scale.unscale(g), optim::all_finite(g));
  });
  const Array w = ones({1});
  auto [kept, finite] = gradient(w, optim::dynamic_loss_scale(1024));
  EXPECT_EQ(kept.item<float>(), 0x1p-26f);
  EXPECT_TRUE(finite.item<bool>());
  auto [lost, small] = gradient(w, optim::dynamic_loss_scale(1));
  EXPECT_EQ(lost.item<float>(), 0);

  const Params params = initial();
  const Params other = tree::map([](const Array& p) { return p + 1; }, params);
  EXPECT_TRUE(array_equal(optim::select_tree(full({}, false), other, params).w, params.w).item<bool>());
  EXPECT_TRUE(array_equal(optim::select_tree(full({}, true), other, params).w, other.w).item<bool>());
  Params infinite = params;
  infinite.k = infinite.k / 0.0;
  EXPECT_FALSE(optim::all_finite(infinite).item<bool>());
  EXPECT_EQ((optim::StaticLossScale{8}.scale(array({2.f})).item<float>()), 16);
}

TEST(CtcLoss, GivesOptaxsValuesAndDerivatives) {
  const Array logits = 2 * numbers({3, 7, 4}, 1);
  const Array logit_paddings = array({{0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f},
                                      {0.f, 0.f, 0.f, 0.f, 0.f, 1.f, 1.f},
                                      {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f}});
  const Array labels = array({{1, 2, 2}, {3, 1, 0}, {0, 0, 0}});
  const Array label_paddings = array({{0.f, 0.f, 0.f}, {0.f, 0.f, 1.f}, {1.f, 1.f, 1.f}});
  auto loss = [&](const Array& x) { return nn::ctc_loss(x, logit_paddings, labels, label_paddings); };
  expect_optaxs("ctc_loss", loss(logits));
  auto weighed = [&](const Array& x) { return sum(loss(x) * array({1.f, -0.5f, 2.f})); };
  expect_optaxs("ctc_loss: by logits", jit(grad(weighed))(logits), {1e-4, 1e-5});
  const Array others = array({{1, 2, 2}, {0, 1, 0}, {0, 0, 0}});
  expect_optaxs("ctc_loss(blank_id=3)", nn::ctc_loss(logits, logit_paddings, others, label_paddings, 3));
  EXPECT_THAT(error_of<ShapeError>([&] { nn::ctc_loss(logits, labels, labels, labels); }),
              HasSubstr("[ctc_loss] expected logits of [batch, steps, classes]"));
  EXPECT_THAT(
      error_of<DTypeError>([&] { nn::ctc_loss(logits, logit_paddings, label_paddings, label_paddings); }),
      HasSubstr("[ctc_loss] expected labels of whole numbers, got f32[3,3]"));
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep
