// SPDX-License-Identifier: Apache-2.0
// Tests of what is particular to the primitives that hold programs: their values, the texts of their
// transforms, errors. derivative_test.cc holds their derivatives and batching.

#include "lockstep/transforms/nested_primitives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/testing/errors.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/test_nested_examples.h"
#include "lockstep/transforms/vjp.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using namespace test;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

TEST(NestedPrimitives, HaveEveryRuleAndAnExample) {
  std::set<std::string> shown, all;
  for (const Example& example : nested_examples()) shown.insert(example.primitive->name);
  for (const ir::Primitive* primitive : nested_primitives()) {
    SCOPED_TRACE(primitive->name);
    EXPECT_TRUE(primitive->shape && primitive->sharding && primitive->jvp && primitive->transpose &&
                primitive->batching && primitive->lower);
    if (primitive == &custom_linear_p()) continue;  // made by custom_vjp's rule only
    all.insert(primitive->name);
    ASSERT_TRUE(primitive->nested.has_value());
    const ir::NestedRules& rules = *primitive->nested;
    EXPECT_TRUE(rules.programs && rules.links && rules.with_programs && rules.jvp && rules.batching &&
                rules.prune);
  }
  EXPECT_EQ(shown, all);
}

TEST(NestedPrimitives, ThatRunAProgramRepeatedly_AreReportedAsLoops) {
  std::set<std::string> loops;
  for (const Example& example : nested_examples()) {
    if (lower(program_of(example), {}).traits.loops) loops.insert(example.primitive->name);
  }
  // The examples of attention and remat hold a scan.
  EXPECT_EQ(loops, (std::set<std::string>{"attention", "remat", "scan", "while"}));
}

TEST(Lower, LoopsThatPadLargeArraysByLittle_AreReported) {
  // u's first cells, padded to its size in a loop, or the same without a loop.
  const auto is_reported = [](std::int64_t size, std::int64_t kept, bool in_loop) {
    const Aval cells{DType::kF32, {size}};
    const auto next = [&](const ir::Value& u) {
      const ir::Value zero = ir::lax::full(u, ir::Scalar::of(0.0), DType::kF32, {});
      return ir::lax::pad(ir::lax::slice(u, {0}, {kept}), zero, {0}, {size - kept}, {0});
    };
    const ir::Program program = trace(
        {cells}, [&](auto v) { return in_loop ? test::five_steps(v[0], next) : std::vector{next(v[0])}; });
    return lower(program, {}).traits.padding;
  };
  constexpr std::int64_t kLarge = 1 << 20;
  EXPECT_TRUE(is_reported(kLarge, kLarge - 1, true));
  EXPECT_FALSE(is_reported(kLarge, kLarge - 1, false));
  EXPECT_FALSE(is_reported(kLarge, kLarge / 4, true));
  EXPECT_FALSE(is_reported(100, 99, true));
}

TEST(NestedPrimitives, AgreeWithTheirShapeRules_AndAreTheSamePruned) {
  for (const Example& example : nested_examples()) {
    const ir::Program program = program_of(example);
    SCOPED_TRACE(to_string(program));
    const std::vector<HostArray> outputs = evaluate(program, example.inputs);
    ASSERT_EQ(outputs.size(), program.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].dtype, program.output_avals()[i].dtype);
      EXPECT_EQ(outputs[i].shape, program.output_avals()[i].shape);
      ir::Program one = program;
      one.outputs = {program.outputs[i]};
      expect_near(evaluate(eliminate_dead_code(std::move(one)), example.inputs)[0].values, outputs[i].values,
                  1e-14);
    }
  }
}

ir::Program scan_program(bool reverse) {
  return trace({{DType::kF64, {}}, {DType::kF64, {4}}}, [&](std::span<const ir::Value> v) {
    const Aval number{DType::kF64, {}};
    const ProgramPtr body = nested({number, number}, [](std::span<const ir::Value> x) {
      return std::vector<ir::Value>{ir::lax::add(ir::lax::mul(x[0], x[0]), x[1]), ir::lax::sub(x[0], x[1])};
    });
    return emit_nested(v[0].builder(), scan_p(), ir::OpParams::of(ScanParams{body, 0, 1, 4, reverse}), v);
  });
}

TEST(Scan, RunsForwardsOrInReverse) {
  const std::vector<HostArray> inputs = {scalar(1), {DType::kF64, {4}, {1, -2, 3, -4}}};
  auto forwards = evaluate(scan_program(false), inputs), backwards = evaluate(scan_program(true), inputs);
  EXPECT_EQ(forwards[0].values, (std::vector<double>{45}));  // 1 -> 2 -> 2 -> 7 -> 45
  EXPECT_EQ(forwards[1].values, (std::vector<double>{0, 4, -1, 11}));
  EXPECT_EQ(backwards[0].values, (std::vector<double>{20165}));  // 1 -> -3 -> 12 -> 142 -> 20165
}

/// A scan whose carries are a square of this size and its last value: each element gets half of the element
/// above it and of the last value of the one below it.
ir::Program stencil_program(std::int64_t size, std::int64_t length) {
  const Aval square{DType::kF64, {size, size}, false, {}};
  const ProgramPtr body = nested({square, square}, [&](std::span<const ir::Value> v) {
    const ir::Value zero = ir::lax::full(v[0], ir::Scalar::of(0.0), DType::kF64, {}),
                    half = ir::lax::full_like(v[0], 0.5);
    const ir::Value above = ir::lax::pad(v[0], zero, {1, 0}, {-1, 0}, {0, 0});
    const ir::Value below = ir::lax::pad(v[1], zero, {-1, 0}, {1, 0}, {0, 0});
    return std::vector<ir::Value>{ir::lax::add(v[0], ir::lax::mul(half, ir::lax::add(above, below))), v[0]};
  });
  return trace({square, square}, [&](std::span<const ir::Value> v) {
    return emit_nested(v[0].builder(), scan_p(), ir::OpParams::of(ScanParams{body, 0, 2, length, false}), v);
  });
}

TEST(Scan, OverAStencil_RunsTwoStepsPerIteration_WithTheSameResults) {
  const HostArray u = random({96, 96}, -1, 1, 31), last = random({96, 96}, -1, 1, 32);
  std::vector<HostArray> stepwise = {u, last};
  for (std::int64_t length = 1; length <= 5; ++length) {
    const std::string text = ir::lower(stencil_program(96, length), {}).stablehlo;
    EXPECT_EQ(text.find("optimization_barrier") != text.npos, length > 1);
    stepwise = evaluate(stencil_program(96, 1), stepwise);
    const std::vector<HostArray> together = evaluate(stencil_program(96, length), {u, last});
    for (std::size_t k = 0; k < 2; ++k) expect_near(together[k].values, stepwise[k].values);
  }
  // Small carries are copied.
  EXPECT_THAT(ir::lower(stencil_program(8, 4), {}).stablehlo, Not(HasSubstr("optimization_barrier")));
}

TEST(Scan, OverNoElements_GivesTheFirstCarry) {
  const ir::Program program =
      trace({{DType::kF64, {}}, {DType::kF64, {0}}}, [&](std::span<const ir::Value> v) {
        const Aval number{DType::kF64, {}};
        const ProgramPtr body = nested({number, number}, [](std::span<const ir::Value> x) {
          return std::vector<ir::Value>{ir::lax::add(x[0], x[1]), x[1]};
        });
        return emit_nested(v[0].builder(), scan_p(), ir::OpParams::of(ScanParams{body, 0, 1, 0, false}), v);
      });
  const auto out = evaluate(program, {scalar(3), {DType::kF64, {0}, {}}});
  EXPECT_EQ(out[0].values, (std::vector<double>{3}));
  EXPECT_EQ(out[1].shape, (Shape{0}));
}

TEST(Scan, WithOnlyItsCarryUsed_StacksNothing) {
  ir::Program program = scan_program(false);
  program.outputs.pop_back();
  EXPECT_EQ(to_string(eliminate_dead_code(program)),
            "f(a:f64[], b:f64[4])\n"
            "  c:f64[] = scan[body={\n"
            "    body(a:f64[], b:f64[])\n"
            "      c:f64[] = mul a a\n"
            "      d:f64[] = add c b\n"
            "      return d\n"
            "  } num_consts=0 num_carry=1 length=4 reverse=false] a b\n"
            "  return c\n");
}

TEST(Scan, ItsVjp_StacksOnlyValuesThatVary) {
  // The derivative of c -> w c + x with respect to c needs w, which every step has.
  const Aval vector{DType::kF64, {3}}, matrix{DType::kF64, {3, 3}};
  const ProgramPtr body = nested({matrix, vector, vector}, [](std::span<const ir::Value> v) {
    return std::vector<ir::Value>{ir::lax::add(ir::lax::dot_general(v[0], v[1], {{1}, {0}, {}, {}}), v[2])};
  });
  const ir::Program program =
      trace({matrix, vector, {DType::kF64, {7, 3}}}, [&](std::span<const ir::Value> v) {
        return emit_nested(v[0].builder(), scan_p(), ir::OpParams::of(ScanParams{body, 1, 1, 7, false}), v);
      });
  EXPECT_THAT(to_string(vjp(program, {false, true, false})), Not(HasSubstr("f64[7,3,3]")));
  EXPECT_THAT(to_string(vjp(program, {false, true, false})), Not(HasSubstr("f64[7,3] = scan")));
}

TEST(Scan, ItsVjpByAConstant_AgreesWithFiniteDifferences) {
  // The tangents' carry starts with zeros that nothing is differentiated in.
  const std::vector<HostArray> inputs = {random({3, 3}, -1, 1, 41), random({3}, -1, 1, 42),
                                         random({5, 3}, -1, 1, 43)};
  Example example{&scan_p(), ir::OpParams::of(ScanParams{recurrence(), 1, 1, 5, false}), inputs};
  ir::Program last = program_of(example);
  last.outputs.pop_back();
  auto sum = [&](double by) {
    std::vector<HostArray> moved = inputs;
    moved[0].values[4] += by;
    const std::vector<double> values = evaluate(last, moved)[0].values;
    return values[0] + values[1] + values[2];
  };
  const auto out =
      evaluate(vjp(last, {true, false, false}), {inputs[0], inputs[1], inputs[2], filled(1, {3})});
  EXPECT_NEAR(out[1].values[4], (sum(1e-5) - sum(-1e-5)) / 2e-5, 1e-8);
}

TEST(While, RunsUntilItsConditionIsFalse_AndHasAForwardDerivative) {
  const Aval number{DType::kF64, {}}, counter{DType::kI32, {}};
  const ir::Program program = trace({number, counter}, [&](std::span<const ir::Value> v) {
    const ProgramPtr condition = nested({number, counter}, [](std::span<const ir::Value> x) {
      return std::vector<ir::Value>{ir::lax::lt(x[1], ir::lax::full_like(x[1], 3))};
    });
    const ProgramPtr body = nested({number, counter}, [](std::span<const ir::Value> x) {
      return std::vector<ir::Value>{ir::lax::mul(x[0], x[0]),
                                    ir::lax::add(x[1], ir::lax::full_like(x[1], 1))};
    });
    return emit_nested(v[0].builder(), while_p(), ir::OpParams::of(WhileParams{condition, body, 0, 0}), v);
  });
  const std::vector<HostArray> inputs = {scalar(1.1), scalar(0, DType::kI32)};
  auto out = evaluate(program, inputs);
  expect_near(out[0].values, {std::pow(1.1, 8)});
  EXPECT_EQ(out[1].values, (std::vector<double>{3}));
  out = evaluate(jvp(program, {true, false}), {inputs[0], inputs[1], scalar(1)});
  expect_near(out[2].values, {8 * std::pow(1.1, 7)});
  EXPECT_THAT(error_of<TraceError>([&] {
                vjp(program, {true, false});
              }),
              AllOf(HasSubstr("[while_loop] has no reverse derivative"), HasSubstr("use scan")));
  // A loop on which no derivative depends is no obstacle.
  const ir::Program beside = trace({number, counter}, [&](std::span<const ir::Value> v) {
    std::vector<ir::Value> out = inline_program(v[0].builder(), program, v);
    return std::vector<ir::Value>{ir::lax::mul(v[0], ir::lax::stop_gradient(out[0]))};
  });
  out = evaluate(vjp(beside, {true, false}), {inputs[0], inputs[1], scalar(1)});
  expect_near(out[1].values, {std::pow(1.1, 8)});
}

TEST(CustomDerivatives, UseTheUsersRule) {
  const std::vector<Example> all = nested_examples();
  for (const Example& example : all) {
    const ir::Program program = program_of(example);
    const std::vector<double>&a = example.inputs[0].values, &x = example.inputs.back().values;
    std::vector<double> expected;
    if (example.primitive == &custom_jvp_p()) {
      for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(6 * a[i] * x[i]);
      const auto forwards =
          evaluate(jvp(program, {false, true}), {example.inputs[0], example.inputs[1], filled(1, {3})});
      expect_near(forwards[1].values, expected);
    } else if (example.primitive == &custom_vjp_p()) {
      for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(a[i] * std::sin(x[i]));
      EXPECT_THAT(error_of<TraceError>([&] {
                    jvp(program, {false, true});
                  }),
                  HasSubstr("[custom_vjp] the function has only a reverse derivative"));
    } else {
      continue;
    }
    const auto backwards =
        evaluate(vjp(program, {false, true}), {example.inputs[0], example.inputs[1], filled(1, {3})});
    expect_near(backwards[1].values, expected);
    EXPECT_THAT(
        error_of<TraceError>([&] {
          vjp(program, {true, true});
        }),
        HasSubstr("its functions use f64[3] from outside, with respect to which it is differentiated"));
    // For two examples of x at once, and one of the constant.
    HostArray two{DType::kF64, {2, 3}, x};
    for (double value : x) two.values.push_back(value / 2);
    const ir::Program mapped = vmap(program, {false, true}, {2});
    const auto both = evaluate(vjp(mapped, {false, true}), {example.inputs[0], two, filled(1, {2, 3})});
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(both[1].values[i], expected[i], 1e-12);
  }
}

TEST(Scan, WithACarryThatIsNotUsed_HasZeroGradientInItsStart) {
  const Aval vector{DType::kF64, {3}};
  const ProgramPtr rounds = nested({vector, vector},
                                   [](std::span<const ir::Value> v) {
                                     return std::vector<ir::Value>{ir::lax::round(v[0]), v[1]};
                                   }),
                   takes = nested({vector, vector}, [](std::span<const ir::Value> v) {
                     return std::vector<ir::Value>{v[1], ir::lax::mul(v[0], v[1])};
                   });
  const HostArray start = random({3}, -2, 2), xs = random({2, 3}, -2, 2), ct = filled(1, {3}),
                  ys_ct = filled(0, {2, 3});
  for (const ProgramPtr& body : {rounds, takes}) {
    const ir::Program program = trace({vector, {DType::kF64, {2, 3}}}, [&](std::span<const ir::Value> v) {
      return emit_nested(v[0].builder(), scan_p(), ir::OpParams::of(ScanParams{body, 0, 1, 2, false}), v);
    });
    EXPECT_THAT(evaluate(vjp(program, {true, false}), {start, xs, ct, ys_ct})[2].values,
                ::testing::Each(0.0));
  }
}

TEST(NestedPrimitives, ACollectiveThatNotAllDevicesReach_IsRefused) {
  ir::AxisEnvScope axes(ir::AxisEnv({{"i", 2}}));
  const Aval vector{DType::kF64, {3}, false, {"i"}};
  const ProgramPtr sums = nested({vector}, [](std::span<const ir::Value> v) {
    return std::vector<ir::Value>{ir::lax::pvary(ir::lax::psum(v[0], {"i"}), {"i"})};
  });
  const ProgramPtr same =
      nested({vector}, [](std::span<const ir::Value> v) { return std::vector<ir::Value>{v[0]}; });
  auto program = [&](const std::vector<std::string>& index_varies) {
    return trace({{DType::kI32, {}, false, index_varies}, vector}, [&](std::span<const ir::Value> v) {
      return emit_nested(v[0].builder(), cond_p(), ir::OpParams::of(CondParams{{sums, same}}), v);
    });
  };
  EXPECT_EQ(program({}).output_avals()[0].varying, vector.varying);
  EXPECT_THAT(error_of<ShardingError>([&] { program({"i"}); }),
              AllOf(HasSubstr("[cond] the value that decides differs between the devices along 'i'"),
                    HasSubstr("they must all do the psum over 'i'")));
}

}  // namespace
}  // namespace lockstep::transforms
