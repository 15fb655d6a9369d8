// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/program/lowering.h"
#include "lockstep/testing/errors.h"

namespace lockstep::ir {
namespace {

using collectives::Kind;
using collectives::ReduceOp;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr DType f32 = DType::kF32;

AxisEnv mesh() { return AxisEnv({{"a", 2}, {"b", 3}}); }

/// A function of one f32 array that varies over both axes, traced on the mesh.
template <class Function>
Program traced(Shape shape, Function function) {
  AxisEnvScope axes(mesh());
  Builder builder("f");
  Value x = builder.input({f32, std::move(shape), false, {"a", "b"}});
  return builder.finish(std::vector{function(x)});
}

LoweredProgram lowered(const Program& program) {
  LowerOptions options;
  options.axes = mesh();
  return lower(program, options);
}

TEST(Collectives, Results_VaryOverTheRightAxes) {
  AxisEnvScope axes(mesh());
  Builder builder;
  const Value x = builder.input({f32, {6, 4}, false, {"a", "b"}}), same = builder.input({f32, {6, 4}});
  using Axes = std::vector<std::string>;
  EXPECT_EQ(lax::psum(x, "a").aval().varying, Axes{"b"});
  EXPECT_EQ(lax::psum(x, {"b", "a"}).aval().varying, Axes{});
  EXPECT_EQ(lax::pmax(x, "b").aval().varying, Axes{"a"});
  EXPECT_EQ(lax::psum(same, "a").aval().varying, Axes{});
  EXPECT_EQ(lax::pvary(same, {"b", "a"}).aval().varying, (Axes{"a", "b"}));
  EXPECT_EQ(lax::all_gather(same, "b", 0).aval().varying, Axes{"b"});
  EXPECT_EQ(lax::psum_scatter(x, "b", 0).aval().varying, (Axes{"a", "b"}));
  EXPECT_EQ(lax::axis_index(x, "b").aval().varying, Axes{"b"});
}

TEST(Collectives, Results_HaveTheirShapes) {
  AxisEnvScope axes(mesh());
  Builder builder;
  const Value x = builder.input({f32, {6, 4}});
  EXPECT_EQ(lax::all_gather(x, "b", 1).aval().shape, (Shape{6, 12}));
  EXPECT_EQ(lax::all_gather(x, {"a", "b"}, 0).aval().shape, (Shape{36, 4}));
  EXPECT_EQ(lax::psum_scatter(x, "b", 0).aval().shape, (Shape{2, 4}));
  EXPECT_EQ(lax::all_to_all(x, "b", 0, 1).aval().shape, (Shape{2, 12}));
  EXPECT_EQ(lax::all_to_all(x, "b", 0, 0).aval().shape, (Shape{6, 4}));
}

TEST(Collectives, ArgumentsThatDoNotFit_AreErrorsThatNameThem) {
  AxisEnvScope axes(mesh());
  Builder builder;
  const Value x = builder.input({f32, {4, 5}}), flags = builder.input({DType::kBool, {4}});
  EXPECT_THAT(
      error_of<Error>([&] { lax::psum_scatter(x, "b", 0); }),
      HasSubstr("dimension 0 of f32[4,5] cannot be cut into 3 equal parts, one for each device along (b)"));
  EXPECT_THAT(error_of<Error>([&] { lax::all_gather(x, "b", 2); }),
              HasSubstr("dimension 2 is out of range for f32[4,5]"));
  EXPECT_THAT(error_of<Error>([&] { lax::psum(x, "c"); }),
              HasSubstr("[psum] there is no mesh axis 'c' here"));
  EXPECT_THAT(error_of<Error>([&] { lax::psum(x, {"a", "a"}); }), HasSubstr("each mesh axis once"));
  EXPECT_THAT(error_of<Error>([&] { lax::psum(flags, "a"); }),
              HasSubstr("[psum] expected numbers, got bool[4]"));
  EXPECT_THAT(error_of<Error>([&] {
                lax::ppermute(x, "b", {{0, 3}});
              }),
              HasSubstr("pair 0->3 is not among the 3"));
  EXPECT_THAT(error_of<Error>([&] {
                lax::ppermute(x, "b", {{0, 1}, {0, 2}});
              }),
              HasSubstr("each source and each target once"));
}

TEST(Collectives, OutsideOfAMesh_AreErrorsThatNamePmapAndShardMap) {
  Builder builder;
  const Value x = builder.input({f32, {4}});
  EXPECT_THAT(error_of<Error>([&] { lax::psum(x, "i"); }), HasSubstr("inside of pmap and shard_map"));
}

TEST(Collectives, Psum_IsPlannedAsAnAllReduceWithinEachGroup) {
  const LoweredProgram program = lowered(traced({512, 10}, [](Value x) { return lax::psum(x, "b"); }));
  ASSERT_EQ(program.collectives.size(), 1u);
  const collectives::Collective& plan = program.collectives[0];
  EXPECT_EQ(plan.kind, Kind::kAllReduce);
  EXPECT_EQ(plan.op, ReduceOp::kSum);
  EXPECT_EQ(plan.dtype, f32);
  EXPECT_EQ(plan.count, 5120);
  EXPECT_THAT(plan.groups, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_EQ(plan.description, "psum f32[512,10] over b");
  EXPECT_TRUE(program.takes_position);
}

TEST(Collectives, PmaxAndPmin_ArePlannedAsSeparateAllReduces) {
  const LoweredProgram program =
      lowered(traced({2}, [](Value x) { return lax::pmin(lax::pmax(x, "a"), "b"); }));
  ASSERT_EQ(program.collectives.size(), 2u);
  EXPECT_EQ(program.collectives[0].op, ReduceOp::kMax);
  EXPECT_EQ(program.collectives[1].op, ReduceOp::kMin);
}

TEST(Collectives, AlongTheLeadingDimension_NeedNoTransposeOrReshape) {
  const LoweredProgram program =
      lowered(traced({6, 4}, [](Value x) { return lax::all_gather(lax::psum_scatter(x, "b", 0), "b", 0); }));
  ASSERT_EQ(program.collectives.size(), 2u);
  EXPECT_EQ(program.collectives[0].kind, Kind::kReduceScatter);
  EXPECT_EQ(program.collectives[0].count, 8);
  EXPECT_EQ(program.collectives[1].kind, Kind::kAllGather);
  EXPECT_EQ(program.collectives[1].count, 8);
  EXPECT_THAT(program.stablehlo, Not(HasSubstr("transpose")));
  EXPECT_THAT(program.stablehlo, Not(HasSubstr("reshape")));
}

TEST(Collectives, AlongAnotherDimension_TransposeItToTheFront) {
  const LoweredProgram gather = lowered(traced({4, 6}, [](Value x) { return lax::all_gather(x, "b", 1); }));
  EXPECT_EQ(gather.collectives.at(0).count, 24);
  EXPECT_THAT(gather.stablehlo, HasSubstr("-> (tensor<3x4x6xf32>, !stablehlo.token)"));
  EXPECT_THAT(gather.stablehlo,
              HasSubstr("{permutation = array<i64: 1, 0, 2>} : (tensor<3x4x6xf32>) -> tensor<4x3x6xf32>"));
  EXPECT_THAT(gather.stablehlo, HasSubstr("(tensor<4x3x6xf32>) -> tensor<4x18xf32>"));

  const LoweredProgram scatter =
      lowered(traced({4, 6}, [](Value x) { return lax::psum_scatter(x, "b", 1); }));
  EXPECT_EQ(scatter.collectives.at(0).count, 8);
  EXPECT_THAT(scatter.stablehlo, HasSubstr("(tensor<4x6xf32>) -> tensor<4x3x2xf32>"));
  EXPECT_THAT(scatter.stablehlo,
              HasSubstr("{permutation = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>"));

  const LoweredProgram swap = lowered(traced({6, 4}, [](Value x) { return lax::all_to_all(x, "b", 0, 1); }));
  EXPECT_EQ(swap.collectives.at(0).kind, Kind::kAllToAll);
  EXPECT_EQ(swap.collectives.at(0).count, 8);
  EXPECT_THAT(swap.stablehlo, HasSubstr("(tensor<6x4xf32>) -> tensor<3x2x4xf32>"));
  EXPECT_THAT(swap.stablehlo,
              HasSubstr("{permutation = array<i64: 1, 0, 2>} : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>"));
  EXPECT_THAT(swap.stablehlo, HasSubstr("(tensor<2x3x4xf32>) -> tensor<2x12xf32>"));
}

TEST(Collectives, Ppermute_IsPlannedWithItsPairs) {
  const LoweredProgram program = lowered(traced({4}, [](Value x) {
    return lax::ppermute(x, "b", {{0, 1}, {1, 2}});
  }));
  EXPECT_EQ(program.collectives.at(0).kind, Kind::kPermute);
  EXPECT_THAT(program.collectives[0].pairs, ElementsAre(Pair(0, 1), Pair(1, 2)));
}

TEST(Collectives, AreChainedInProgramOrder) {
  const LoweredProgram program =
      lowered(traced({4}, [](Value x) { return lax::psum(lax::psum(x, "a"), "b"); }));
  EXPECT_THAT(program.stablehlo, HasSubstr("call = 0 : i64"));
  EXPECT_THAT(program.stablehlo, HasSubstr("call = 1 : i64"));
  EXPECT_EQ(program.collectives.at(0).description, "psum f32[4] over a");
  EXPECT_EQ(program.collectives.at(1).description, "psum f32[4] over b");
}

TEST(Collectives, TracedForAnotherNumberOfDevices_AreRefused) {
  Program program = traced({4}, [](Value x) { return lax::all_gather(x, "b", 0); });
  LowerOptions options;
  options.axes = AxisEnv({{"a", 2}, {"b", 2}});
  EXPECT_THAT(error_of<Error>([&] { lower(program, options); }),
              HasSubstr("was traced for 3 devices and is lowered for 2"));
}

}  // namespace
}  // namespace lockstep::ir
