// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/vjp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <source_location>

#include "lockstep/base/error.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/testing/errors.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using namespace test;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

constexpr DType f32 = DType::kF32, f64 = DType::kF64;

ir::Program sine_times_x() {
  return trace({{f32, {4}}}, [](auto v) { return std::vector{ir::lax::mul(ir::lax::sin(v[0]), v[0])}; });
}

TEST(Jvp, ComputesTheValueAndTheTangentTogether) {
  EXPECT_EQ(to_string(jvp(sine_times_x(), {true})),
            "f(a:f32[4], b:f32[4])\n"
            "  c:f32[4] = sin a\n"
            "  d:f32[4] = cos a\n"
            "  e:f32[4] = mul b d\n"
            "  f:f32[4] = mul c a\n"
            "  g:f32[4] = mul e a\n"
            "  h:f32[4] = mul c b\n"
            "  i:f32[4] = add g h\n"
            "  return f i\n");
}

TEST(Vjp, ComputesTheValueAndThenTheCotangents) {
  EXPECT_EQ(to_string(vjp(sine_times_x(), {true})),
            "f(a:f32[4], b:f32[4])\n"
            "  c:f32[4] = sin a\n"
            "  d:f32[4] = cos a\n"
            "  e:f32[4] = mul c a\n"
            "  f:f32[4] = mul c b\n"
            "  g:f32[4] = mul b a\n"
            "  h:f32[4] = mul g d\n"
            "  i:f32[4] = add f h\n"
            "  return e i\n");
}

TEST(Vjp, ComputesOnlyTheRequestedGradients) {
  ir::Program product =
      trace({{f32, {4}}, {f32, {4}}}, [](auto v) { return std::vector{ir::lax::mul(v[0], v[1])}; });
  EXPECT_EQ(to_string(vjp(product, {false, true})),
            "f(a:f32[4], b:f32[4], c:f32[4])\n"
            "  d:f32[4] = mul a b\n"
            "  e:f32[4] = mul a c\n"
            "  return d e\n");
}

TEST(Vjp, AnUnusedInput_HasAGradientOfZeros) {
  ir::Program first = trace({{f64, {2}}, {f64, {3}}}, [](auto v) { return std::vector{v[0]}; });
  auto results = evaluate(vjp(first, {true, true}), {filled(5, {2}), filled(6, {3}), filled(7, {2})});
  EXPECT_THAT(results[0].values, ElementsAre(5, 5));
  EXPECT_THAT(results[1].values, ElementsAre(7, 7));
  EXPECT_THAT(results[2].values, ElementsAre(0, 0, 0));
}

TEST(Vjp, SumsTheCotangentsOfSeveralUsesAndOutputs) {
  // y = x*x + x and z = 3 x, of which only y and z are inexact.
  ir::Program program = trace({{f64, {}}}, [](auto v) {
    ir::Value y = ir::lax::add(ir::lax::mul(v[0], v[0]), v[0]);
    ir::Value sign = ir::lax::gt(v[0], ir::lax::full_like(v[0], 0));
    return std::vector{y, sign, ir::lax::mul(ir::lax::full_like(v[0], 3), v[0]), y};
  });
  ir::Program backwards = vjp(program, {true});
  EXPECT_EQ(backwards.inputs.size(), 4u);
  auto results = evaluate(backwards, {scalar(4), scalar(1), scalar(10), scalar(100)});
  EXPECT_EQ(results[4].values[0], 101 * (2 * 4 + 1) + 10 * 3);
}

TEST(Vjp, AnIntegerInput_ThrowsTraceErrorNamingInputAndDType) {
  ir::Program program = trace({{f32, {2}}, {DType::kI32, {2}}}, [](auto v) {
    return std::vector{v[0], v[1]};
  });
  EXPECT_THAT(
      error_of<TraceError>([&] {
        vjp(program, {false, true});
      }),
      HasSubstr("input 1 of f is i32[2]: an integer cannot be differentiated; convert it to a floating"));
  EXPECT_THAT(error_of<TraceError>([&] {
                jvp(program, {false, true});
              }),
              HasSubstr("input 1 of f is i32[2]"));
  EXPECT_NO_THROW(vjp(program, {true, false}));
}

TEST(Vjp, AVjpOfAVjp_IsTheSecondDerivative) {
  ir::Program tanh = trace({{f64, {}}}, [](auto v) { return std::vector{ir::lax::tanh(v[0])}; });
  ir::Program gradient = trace({{f64, {}}}, [&](auto v) {
    const ir::Value inputs[] = {v[0], ir::lax::full_like(v[0], 1)};
    return std::vector{inline_program(v[0].builder(), vjp(tanh, {true}), inputs)[1]};
  });
  auto results = evaluate(vjp(gradient, {true}), {scalar(0.3), scalar(1)});
  const double y = std::tanh(0.3);
  EXPECT_NEAR(results[0].values[0], 1 - y * y, 1e-12);
  EXPECT_NEAR(results[1].values[0], -2 * y * (1 - y * y), 1e-12);
}

TEST(Vjp, EqualMaxima_ShareTheGradientEvenly) {
  ir::Program largest =
      trace({{f64, {4}}}, [](auto v) { return std::vector{ir::lax::reduce_max(v[0], {0})}; });
  auto results = evaluate(vjp(largest, {true}), {HostArray{f64, {4}, {1, 5, 5, 2}}, scalar(3)});
  EXPECT_THAT(results[1].values, ElementsAre(0, 1.5, 1.5, 0));
}

TEST(Vjp, AProductWithZeros_HasItsExactGradient) {
  ir::Program product =
      trace({{f64, {3}}}, [](auto v) { return std::vector{ir::lax::reduce_prod(v[0], {0})}; });
  ir::Program backwards = vjp(product, {true});
  EXPECT_THAT(evaluate(backwards, {HostArray{f64, {3}, {2, 0, 5}}, scalar(1)})[1].values,
              ElementsAre(0, 10, 0));
  EXPECT_THAT(evaluate(backwards, {HostArray{f64, {3}, {0, 0, 5}}, scalar(1)})[1].values,
              ElementsAre(0, 0, 0));
}

/// The mean cross-entropy of a network of two layers.
ir::Value network_loss(std::span<const ir::Value> v) {
  const ir::Value &w1 = v[0], &w2 = v[1], &x = v[2], &labels = v[3];
  auto matmul = [](const ir::Value& a, const ir::Value& b) {
    return ir::lax::dot_general(a, b, {{1}, {0}, {}, {}});
  };
  ir::Value logits = matmul(ir::lax::tanh(matmul(x, w1)), w2);
  const Shape shape = logits.aval().shape;
  ir::Value top = ir::lax::stop_gradient(ir::lax::reduce_max(logits, {1}));
  ir::Value shifted = ir::lax::sub(logits, ir::lax::broadcast_in_dim(top, shape, {0}));
  ir::Value log_sum = ir::lax::log(ir::lax::reduce_sum(ir::lax::exp(shifted), {1}));
  ir::Value log_probabilities = ir::lax::sub(shifted, ir::lax::broadcast_in_dim(log_sum, shape, {0}));
  return ir::lax::neg(ir::lax::reduce_sum(ir::lax::mul(log_probabilities, labels), {0, 1}));
}

TEST(Vjp, ANetworksLoss_AgreesWithFiniteDifferences) {
  std::vector<HostArray> inputs = {random({6, 5}, -1, 1, 1), random({5, 3}, -1, 1, 2),
                                   random({4, 6}, -1, 1, 3), filled(0, {4, 3})};
  for (std::size_t row = 0; row < 4; ++row) inputs[3].values[row * 3 + row % 3] = 1;
  ir::Program loss = trace(avals_of(inputs), [](auto v) { return std::vector{network_loss(v)}; });
  std::vector<HostArray> seeded = inputs;
  seeded.push_back(scalar(1));
  const std::vector<HostArray> gradients = evaluate(vjp(loss, {true, true, false, false}), seeded);

  constexpr double kStep = 1e-5;
  Joined joined;
  for (std::size_t which : {0, 1}) {
    for (std::size_t k = 0; k < inputs[which].values.size(); ++k) {
      for (double sign : {1.0, -1.0}) {
        std::vector<HostArray> moved = inputs;
        moved[which].values[k] += sign * kStep;
        joined.want(inline_program(joined.builder(), loss, joined.inputs(moved)));
      }
    }
  }
  const std::vector<HostArray> losses = joined.run();
  std::size_t next = 0;
  for (std::size_t which : {0, 1}) {
    for (double gradient : gradients[1 + which].values) {
      const double difference = (losses[next].values[0] - losses[next + 1].values[0]) / (2 * kStep);
      EXPECT_NEAR(gradient, difference, 1e-7);
      next += 2;
    }
  }
}

TEST(Vjp, AReplicatedInputsGradient_IsSummedOverTheDevicesThatUseIt) {
  ir::AxisEnvScope axes(ir::AxisEnv({{"i", 4}}));
  // The loss of data parallelism: w is the same everywhere, x is not, and the sum is over all devices.
  ir::Program loss = trace({{f32, {2}}, {f32, {2}, false, {"i"}}},
                           [](auto v) { return std::vector{ir::lax::psum(ir::lax::mul(v[0], v[1]), "i")}; });
  EXPECT_EQ(to_string(vjp(loss, {true, true})),
            "f(a:f32[2], b:f32[2]{i}, c:f32[2])\n"
            "  d:f32[2]{i} = pvary[axes=(i)] a\n"
            "  e:f32[2]{i} = mul d b\n"
            "  f:f32[2] = psum[axes=(i)] e\n"
            "  g:f32[2]{i} = pvary[axes=(i)] c\n"
            "  h:f32[2]{i} = mul d g\n"
            "  i:f32[2]{i} = mul g b\n"
            "  j:f32[2] = psum[axes=(i)] i\n"
            "  return f j h\n");
}

TEST(Vjp, Collectives_AreTransposedToTheirCounterparts) {
  ir::AxisEnvScope axes(ir::AxisEnv({{"i", 4}}));
  auto backwards = [](auto function) {
    return to_string(vjp(
        trace({{f32, {4, 8}, false, {"i"}}}, [&](auto v) { return std::vector{function(v[0])}; }), {true}));
  };
  EXPECT_THAT(backwards([](ir::Value x) { return ir::lax::all_gather(x, "i", 1); }),
              HasSubstr("d:f32[4,8]{i} = psum_scatter[axes=(i) axis_size=4 dimension=1] b"));
  EXPECT_THAT(backwards([](ir::Value x) { return ir::lax::psum_scatter(x, "i", 1); }),
              HasSubstr("d:f32[4,8]{i} = all_gather[axes=(i) axis_size=4 dimension=1] b"));
  EXPECT_THAT(backwards([](ir::Value x) { return ir::lax::all_to_all(x, "i", 0, 1); }),
              HasSubstr("all_to_all[axes=(i) axis_size=4 split_dimension=1 concat_dimension=0] b"));
  EXPECT_THAT(backwards([](ir::Value x) {
                return ir::lax::ppermute(x, "i", {{0, 1}, {2, 3}});
              }),
              HasSubstr("ppermute[axes=(i) axis_size=4 pairs=[1->0,3->2]] b"));
}

TEST(Vjp, AGatheredReplicatedInputsGradient_IsSummed) {
  ir::AxisEnvScope axes(ir::AxisEnv({{"i", 4}}));
  ir::Program program =
      trace({{f32, {2}}}, [](auto v) { return std::vector{ir::lax::all_gather(v[0], "i", 0)}; });
  ir::Program backwards = vjp(program, {true});
  EXPECT_THAT(to_string(backwards), HasSubstr("psum_scatter"));
  EXPECT_EQ(to_string(backwards.output_avals()[1]), "f32[2]") << to_string(backwards);
  EXPECT_EQ(backwards.equations.back().primitive, &ir::psum_p());
}

TEST(Vmap, AGradient_GivesOneForEachExample) {
  // d(w·x)²/dw = 2 (w·x) x
  ir::Program loss = trace({{f64, {3}}, {f64, {3}}}, [](auto v) {
    ir::Value y = ir::lax::reduce_sum(ir::lax::mul(v[0], v[1]), {0});
    return std::vector{ir::lax::mul(y, y)};
  });
  ir::Program each = vmap(vjp(loss, {true, false}), {false, true, false}, {2});
  auto results =
      evaluate(each, {HostArray{f64, {3}, {1, 2, 3}}, HostArray{f64, {2, 3}, {1, 0, 0, 1, 1, 1}}, scalar(1)});
  EXPECT_THAT(results[0].values, ElementsAre(1, 36));
  EXPECT_EQ(results[1].shape, (Shape{2, 3}));
  EXPECT_THAT(results[1].values, ElementsAre(2, 0, 0, 12, 12, 12));
}

TEST(Vmap, OutputsOfUnbatchedInputs_AreBroadcast) {
  ir::Program program = trace({{f64, {2}}, {f64, {}}}, [](auto v) {
    return std::vector{ir::lax::neg(v[0]), v[1]};
  });
  auto results = evaluate(vmap(program, {false, true}, {3}), {filled(2, {2}), filled(7, {3})});
  EXPECT_EQ(results[0].shape, (Shape{3, 2}));
  EXPECT_THAT(results[0].values, ::testing::Each(-2));
  EXPECT_THAT(results[1].values, ElementsAre(7, 7, 7));
}

TEST(Vmap, DotProductMappedTwice_IsAMatrixProduct) {
  ir::Program dot = trace({{f64, {3}}, {f64, {3}}}, [](auto v) {
    return std::vector{ir::lax::dot_general(v[0], v[1], {{0}, {0}, {}, {}})};
  });
  ir::Program rows = vmap(vmap(dot, {false, true}, {2}), {true, false}, {4});
  const HostArray a = random({4, 3}, -1, 1, 1), b = random({2, 3}, -1, 1, 2);
  auto got = evaluate(rows, {a, b})[0];
  EXPECT_EQ(got.shape, (Shape{4, 2}));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      double want = 0;
      for (std::size_t k = 0; k < 3; ++k) want += a.values[i * 3 + k] * b.values[j * 3 + k];
      EXPECT_NEAR(got.values[i * 2 + j], want, 1e-14);
    }
  }
}

TEST(DeadCode, IsRemoved_AndInputsStay) {
  ir::Program program = trace({{f32, {2}}, {f32, {2}}}, [](auto v) {
    ir::lax::exp(ir::lax::sin(v[0]));
    ir::Value kept = ir::lax::cos(v[1]);
    ir::lax::tanh(kept);
    return std::vector{kept};
  });
  EXPECT_EQ(to_string(eliminate_dead_code(program)),
            "f(a:f32[2], b:f32[2])\n"
            "  c:f32[2] = cos b\n"
            "  return c\n");
}

TEST(Inline, KeepsCallSites) {
  const CallSite site = CallSite::from(std::source_location::current());
  ir::Program program;
  {
    CallSiteScope scope(site);
    program = trace({{f32, {2}}}, [](auto v) { return std::vector{ir::lax::sin(v[0])}; });
  }
  ir::Program outer = trace({{f32, {2}}}, [&](auto v) { return inline_program(v[0].builder(), program, v); });
  EXPECT_EQ(outer.equations.at(0).site.line, site.line);
  for (const ir::Equation& equation : vjp(program, {true}).equations)
    EXPECT_EQ(equation.site.line, site.line);
}

TEST(Inline, TooFewInputs_ThrowError) {
  ir::Program program = trace({{f32, {2}}, {f32, {2}}}, [](auto v) { return std::vector{v[0]}; });
  ir::Builder builder;
  const ir::Value x = builder.input({f32, {2}});
  EXPECT_THROW(inline_program(builder, program, std::vector{x}), Error);
}

}  // namespace
}  // namespace lockstep::transforms
