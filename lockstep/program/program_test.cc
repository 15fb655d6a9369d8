// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <source_location>

#include "lockstep/base/error.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/testing/errors.h"

namespace lockstep::ir {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

constexpr DType f32 = DType::kF32;

/// sum(tanh(x @ w)), with its equations said to come from this place.
Program layer(CallSite site = {}) {
  CallSiteScope scope(site);
  Builder builder("layer");
  Value x = builder.input({f32, {4, 8}}), w = builder.input({f32, {8, 2}});
  Value y = lax::tanh(lax::dot_general(x, w, {{1}, {0}, {}, {}}));
  Value half = lax::mul(y, lax::full_like(y, 0.5));
  return builder.finish(std::vector{lax::reduce_sum(half, {0, 1}), y});
}

TEST(Program, PrintsOneEquationPerLine) {
  EXPECT_EQ(
      to_string(layer()),
      "layer(a:f32[4,8], b:f32[8,2])\n"
      "  c:f32[4,2] = dot_general[lhs_contracting=[1] rhs_contracting=[0] lhs_batch=[] rhs_batch=[]] a b\n"
      "  d:f32[4,2] = tanh c\n"
      "  e:f32[4,2] = full[value=0.5 dtype=f32 shape=[4,2] weak_type=false]\n"
      "  f:f32[4,2] = mul d e\n"
      "  g:f32[] = reduce_sum[axes=[0,1]] f\n"
      "  return g d\n");
}

TEST(Program, PrintsTheSameWhateverItsCallSites) {
  const CallSite site = CallSite::from(std::source_location::current());
  const Program program = layer(site);
  EXPECT_EQ(program.equations.front().site.line, site.line);
  EXPECT_EQ(to_string(program), to_string(layer()));
}

TEST(Program, NamesVariablesBeyondTheAlphabet) {
  Builder builder;
  Value x = builder.input({f32, {}});
  for (int i = 0; i < 30; ++i) x = lax::neg(x);
  EXPECT_THAT(to_string(builder.finish(std::vector{x})), HasSubstr("  ae:f32[] = neg ad\n  return ae\n"));
}

TEST(Program, PrintsWeakTypesAndVaryingAxes) {
  EXPECT_EQ(to_string(Aval{f32, {4}, true, {"i", "j"}}), "f32[4]*{i,j}");
}

TEST(OpParams, AreEqualExactlyIfTheirFieldsAre) {
  const OpParams a = OpParams::of(SliceParams{{0, 1}, {4, 6}, {1, 2}});
  EXPECT_EQ(a, OpParams::of(SliceParams{{0, 1}, {4, 6}, {1, 2}}));
  EXPECT_FALSE(a == OpParams::of(SliceParams{{0, 1}, {4, 6}, {1, 1}}));
  EXPECT_FALSE(a == OpParams());
  EXPECT_EQ(a.text(), "start_indices=[0,1] limit_indices=[4,6] strides=[1,2]");
  EXPECT_EQ(OpParams().text(), "");
}

TEST(OpParams, IntegersAndFloatsOfOneValue_Differ) {
  auto full = [](Scalar value) { return OpParams::of(FullParams{value, f32, {}, false}); };
  EXPECT_FALSE(full(Scalar::of(1)) == full(Scalar::of(1.0)));
  EXPECT_FALSE(full(Scalar::of(0.1)) == full(Scalar::of(0.1 + 1e-17 + 1e-16)));
  EXPECT_EQ(full(Scalar::of(2.5)), full(Scalar::of(2.5)));
}

TEST(Builder, OperandsThatDoNotFit_NameOperationShapesAndTheUsersLine) {
  Builder builder;
  Value x = builder.input({f32, {2, 3}}), y = builder.input({f32, {3, 2}});
  const CallSite site = CallSite::from(std::source_location::current());
  CallSiteScope scope(site);
  EXPECT_EQ(
      error_of<ShapeError>([&] { lax::add(x, y); }),
      "[add] expected operands of one shape, got f32[2,3] and f32[3,2]; broadcast or reshape one of them "
      "(operands: f32[2,3], f32[3,2]; at program_test.cc:" +
          std::to_string(site.line) + ")");
}

TEST(Builder, AWrongDType_ThrowsDTypeError) {
  Builder builder;
  Value x = builder.input({f32, {2}}), y = builder.input({DType::kI32, {2}});
  EXPECT_THAT(error_of<DTypeError>([&] { lax::mul(x, y); }),
              HasSubstr("[mul] expected operands of one dtype, got f32[2] and i32[2]"));
  EXPECT_THAT(error_of<DTypeError>([&] { lax::exp(y); }), HasSubstr("[exp] expected floating or complex"));
}

TEST(Builder, AnOperandOfAnotherTrace_ThrowsTraceError) {
  Builder inside, outside;
  Value x = inside.input({f32, {2}}), y = outside.input({f32, {2}});
  EXPECT_THAT(error_of<TraceError>([&] { lax::add(x, y); }),
              HasSubstr("a traced array has left its function"));
}

TEST(Builder, OperandsThatVaryDifferently_GetPvary) {
  AxisEnvScope axes(AxisEnv({{"i", 2}}));
  Builder builder("f");
  Value x = builder.input({f32, {2}, false, {"i"}}), y = builder.input({f32, {2}});
  EXPECT_EQ(to_string(builder.finish(std::vector{lax::mul(x, y)})),
            "f(a:f32[2]{i}, b:f32[2])\n"
            "  c:f32[2]{i} = pvary[axes=(i)] b\n"
            "  d:f32[2]{i} = mul a c\n"
            "  return d\n");
}

TEST(AxisEnv, GroupsDifferOnlyAlongTheAxes) {
  AxisEnv env({{"a", 2}, {"b", 3}});
  EXPECT_THAT(env.groups(std::vector<std::string>{"b"}),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(env.groups(std::vector<std::string>{"a"}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  EXPECT_THAT(env.groups(std::vector<std::string>{"b", "a"}), ElementsAre(ElementsAre(0, 3, 1, 4, 2, 5)));
}

TEST(AxisEnv, PartsOfAxes_HaveSizesStridesAndGroups) {
  const AxisEnv env({{"a", 2}, {"b", 6}});
  const std::string first = AxisEnv::part_name("b", 1, 2), second = AxisEnv::part_name("b", 2, 3);
  EXPECT_EQ(first, "b:(1)2");
  EXPECT_EQ(env.size(first), 2);
  EXPECT_EQ(env.stride(first), 3);
  EXPECT_EQ(env.size(second), 3);
  EXPECT_EQ(env.stride(second), 1);
  EXPECT_EQ(env.groups(std::vector{first, second}), env.groups(std::vector<std::string>{"b"}));
  EXPECT_THAT(env.groups(std::vector{first}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5), ElementsAre(6, 9),
                          ElementsAre(7, 10), ElementsAre(8, 11)));
  for (const char* wrong : {"b:(1)4", "b:(4)2", "b:(0)2", "b:()2", "b:(2)", "c:(1)2", "b:(1)x"})
    EXPECT_THAT(error_of<ShardingError>([&] { env.size(wrong); }), HasSubstr("there is no mesh axis"))
        << wrong;
}

TEST(AxisEnv, AnUnknownAxis_ListsTheKnownOnes) {
  EXPECT_THAT(error_of<ShardingError>([] {
                AxisEnv({{"a", 2}, {"b", 3}}).size("c");
              }),
              HasSubstr("no mesh axis 'c' here; the axes are (a, b)"));
}

TEST(Lowering, MarksDonatedInputs) {
  LowerOptions options;
  options.donated = {false, true};
  const std::string text = lower(layer(), options).stablehlo;
  EXPECT_THAT(text, HasSubstr("%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xf32> {jax.buffer_donor = true}"));
}

/// Only values that nothing needs afterwards are written over: XLA would copy anything else.
TEST(Lowering, CollectivesOverwriteOperands_ThatNothingElseUses) {
  LowerOptions options;
  options.axes = AxisEnv({{"i", 2}});
  const AxisEnvScope axes(options.axes);
  auto writes_over = [&](const std::function<std::vector<Value>(const Value&)>& write, bool donated = false) {
    Builder builder("sums");
    Aval aval{f32, {8}};
    aval.varying = {"i"};
    const Program program = builder.finish(write(builder.input(aval)));
    options.donated = {donated};
    return lower(program, options).stablehlo.find("output_operand_aliases") != std::string::npos;
  };
  const std::vector<std::string> over = {"i"};
  EXPECT_FALSE(writes_over([&](const Value& x) { return std::vector{lax::psum(x, over)}; }));
  EXPECT_TRUE(writes_over([&](const Value& x) { return std::vector{lax::psum(x, over)}; }, true));
  EXPECT_TRUE(writes_over([&](const Value& x) { return std::vector{lax::psum(lax::neg(x), over)}; }));
  // A view of what stays.
  const auto seen = [](const Value& x) { return lax::reshape(lax::reshape(x, {1, 8}), {8}); };
  EXPECT_FALSE(writes_over([&](const Value& x) { return std::vector{lax::psum(seen(x), over)}; }));
  EXPECT_TRUE(writes_over([&](const Value& x) { return std::vector{lax::psum(seen(x), over)}; }, true));
  EXPECT_TRUE(writes_over([&](const Value& x) { return std::vector{lax::psum(seen(lax::neg(x)), over)}; }));
  EXPECT_FALSE(writes_over([&](const Value& x) {
    const Value y = lax::neg(x), sum = lax::psum(seen(y), over);
    return std::vector{lax::add(sum, y)};
  }));
  EXPECT_FALSE(writes_over([&](const Value& x) {
    const Value y = lax::neg(x);
    return std::vector{lax::psum(y, over), seen(y)};
  }));
  EXPECT_FALSE(writes_over([&](const Value& x) {
    const Value y = lax::neg(x), sum = lax::psum(y, over);
    return std::vector{lax::add(sum, y)};
  }));
  EXPECT_FALSE(writes_over([&](const Value& x) {
    const Value y = lax::neg(x);
    return std::vector{lax::psum(y, over), y};
  }));
}

TEST(Lowering, Fingerprint_DependsOnProgramAndSalt) {
  LowerOptions options, salted;
  salted.salt = 1;
  Builder other("layer");
  Value x = other.input({f32, {4, 8}});
  const Program identity = other.finish(std::vector{x});
  EXPECT_EQ(lower(layer(), options).fingerprint, lower(layer(), options).fingerprint);
  EXPECT_NE(lower(layer(), options).fingerprint, lower(layer(), salted).fingerprint);
  EXPECT_NE(lower(layer(), options).fingerprint, lower(identity, options).fingerprint);
}

}  // namespace
}  // namespace lockstep::ir
