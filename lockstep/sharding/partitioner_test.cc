// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

Aval f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

ir::Value matmul(const ir::Value& x, const ir::Value& w) {
  return ir::lax::dot_general(x, w, {{1}, {0}, {}, {}});
}

ir::Program matmul_program() {
  ir::Builder b("matmul");
  ir::Value x = b.input(f32({8, 16})), w = b.input(f32({16, 32}));
  const ir::Value outputs[] = {matmul(x, w)};
  return b.finish(outputs);
}

/// The mean over the batch of the squares of an MLP's results less y. Inputs w1, b1, w2, x, y.
ir::Program loss_program() {
  ir::Builder b("loss");
  ir::Value w1 = b.input(f32({16, 32})), b1 = b.input(f32({32})), w2 = b.input(f32({32, 4}));
  ir::Value x = b.input(f32({64, 16})), y = b.input(f32({64, 4}));
  ir::Value h = ir::lax::tanh(ir::lax::add(matmul(x, w1), ir::lax::broadcast_in_dim(b1, {64, 32}, {1})));
  ir::Value error = ir::lax::sub(matmul(h, w2), y);
  ir::Value sum = ir::lax::reduce_sum(ir::lax::mul(error, error), {0, 1});
  const ir::Value outputs[] = {ir::lax::div(sum, ir::lax::full_like(sum, 64))};
  return b.finish(outputs);
}

/// The loss and its gradients for w1, b1, w2, and a last input: the cotangent of the loss.
ir::Program gradient_program() {
  return transforms::eliminate_dead_code(transforms::vjp(loss_program(), {true, true, true, false, false}));
}

std::vector<std::string> collectives(const ir::Program& program, const ir::AxisEnv& axes) {
  std::vector<std::string> all;
  for (const CommunicationLine& line : communication(program, axes)) {
    Aval result = program.aval(program.equations[line.equation].outputs[0]);
    std::string over;
    for (const std::string& axis : line.axes) over += " " + axis;
    all.push_back(line.kind + " " + to_string(result) + over);
  }
  return all;
}

std::string text(const Partitioned& partitioned) {
  std::string text = to_string(partitioned.program);
  for (const PartitionSpec& spec : partitioned.out_specs) text += spec.to_string() + "\n";
  return text;
}

const ir::AxisEnv kData({{"data", 4}});
const ir::AxisEnv kBoth({{"data", 2}, {"model", 2}});
constexpr std::nullopt_t kAny = std::nullopt;

const std::string kDot = "dot_general[lhs_contracting=[1] rhs_contracting=[0] lhs_batch=[] rhs_batch=[]]";

TEST(Partition, MatmulWithSplitRows_NeedsNoCollective) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P("data"), P()}, {kAny}})),
            "matmul(a:f32[2,16], b:f32[16,32])\n"
            "  c:f32[2,32] = " +
                kDot +
                " a b\n"
                "  return c\n"
                "P('data')\n");
}

TEST(Partition, MatmulWithSplitColumns_NeedsNoCollective) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P(), P(none, "data")}, {kAny}})),
            "matmul(a:f32[8,16], b:f32[16,8])\n"
            "  c:f32[8,8] = " +
                kDot +
                " a b\n"
                "  return c\n"
                "P(None, 'data')\n");
}

TEST(Partition, MatmulWithSplitContraction_SumsOnce) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P(none, "data"), P("data")}, {kAny}})),
            "matmul(a:f32[8,4], b:f32[4,32])\n"
            "  c:f32[8,32] = " +
                kDot +
                " a b\n"
                "  d:f32[8,32] = psum[axes=(data)] c\n"
                "  return d\n"
                "P()\n");
}

TEST(Partition, MatmulWithContractionSplitInOneOperand_SlicesTheOther) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P(), P("data")}, {kAny}})),
            "matmul(a:f32[8,16], b:f32[4,32])\n"
            "  c:i32[] = full[value=0 dtype=i32 shape=[] weak_type=false]\n"
            "  d:i32[] = axis_index[axes=(data)]\n"
            "  e:i32[] = full[value=4 dtype=i32 shape=[] weak_type=false]\n"
            "  f:i32[] = mul d e\n"
            "  g:f32[8,4] = dynamic_slice[slice_sizes=[8,4]] a c f\n"
            "  h:f32[8,32] = " +
                kDot +
                " g b\n"
                "  i:f32[8,32] = psum[axes=(data)] h\n"
                "  return i\n"
                "P()\n");
}

TEST(Partition, MatmulWithSplitContractionAndSplitResult_ScattersTheSum) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P(none, "data"), P("data")}, {P("data")}})),
            "matmul(a:f32[8,4], b:f32[4,32])\n"
            "  c:f32[8,32] = " +
                kDot +
                " a b\n"
                "  d:f32[2,32] = psum_scatter[axes=(data) axis_size=4 dimension=0] c\n"
                "  return d\n"
                "P('data')\n");
}

TEST(Partition, MatmulWithBothOperandsSplitOverOneAxis_GathersTheSmaller) {
  EXPECT_EQ(text(partition(matmul_program(), {kData, {P("data"), P(none, "data")}, {kAny}})),
            "matmul(a:f32[2,16], b:f32[16,8])\n"
            "  c:f32[8,16] = all_gather[axes=(data) axis_size=4 dimension=0] a\n"
            "  d:f32[8,8] = " +
                kDot +
                " c b\n"
                "  return d\n"
                "P(None, 'data')\n");
}

TEST(Partition, MatmulOverTwoAxes_SplitsRowsAndColumns) {
  EXPECT_EQ(text(partition(matmul_program(), {kBoth, {P("data"), P(none, "model")}, {kAny}})),
            "matmul(a:f32[4,16], b:f32[16,16])\n"
            "  c:f32[4,16] = " +
                kDot +
                " a b\n"
                "  return c\n"
                "P('data', 'model')\n");
}

TEST(Partition, DataParallelGradients_AreOneAllReduceForEachParameterAndOneForTheLoss) {
  Partitioned p = partition(gradient_program(),
                            {kData, {P(), P(), P(), P("data"), P("data"), P()}, {P(), P(), P(), P()}});
  EXPECT_THAT(collectives(p.program, kData),
              UnorderedElementsAre("all-reduce f32[] data", "all-reduce f32[16,32] data",
                                   "all-reduce f32[32] data", "all-reduce f32[32,4] data"));
}

TEST(Partition, SumOfTwoPartialProducts_HasOneAllReduce) {
  ir::Builder b("sum");
  ir::Value x = b.input(f32({8, 16})), w = b.input(f32({16, 32})), y = b.input(f32({8, 4})),
            v = b.input(f32({4, 32}));
  const ir::Value sum = ir::lax::add(matmul(x, w), ir::lax::neg(matmul(y, v)));
  const ir::Value outputs[] = {ir::lax::transpose(sum, {1, 0})};
  const ir::Program program = b.finish(outputs);
  const PartitionSpec columns = P(none, "data"), rows = P("data");
  EXPECT_THAT(collectives(partition(program, {kData, {columns, rows, columns, rows}, {P()}}).program, kData),
              ElementsAre("all-reduce f32[32,8] data"));
  EXPECT_THAT(
      collectives(partition(program, {kData, {columns, rows, columns, rows}, {P("data")}}).program, kData),
      ElementsAre("reduce-scatter f32[8,8] data"));
}

TEST(Partition, PartialValueOfTwoUses_IsSummedBeforeThem) {
  ir::Builder b("uses");
  ir::Value x = b.input(f32({8, 16})), w = b.input(f32({16, 32}));
  const ir::Value product = matmul(x, w);
  const ir::Value outputs[] = {ir::lax::neg(product), ir::lax::transpose(product, {1, 0})};
  EXPECT_THAT(
      collectives(partition(b.finish(outputs), {kData, {P(none, "data"), P("data")}, {kAny, kAny}}).program,
                  kData),
      ElementsAre("all-reduce f32[8,32] data"));
}

TEST(Partition, PartialValueThatIsBroadcast_IsSummedBefore) {
  ir::Builder b("grows");
  ir::Value x = b.input(f32({8, 16})), w = b.input(f32({16, 32}));
  const ir::Value outputs[] = {ir::lax::broadcast_in_dim(matmul(x, w), {10, 8, 32}, {1, 2})};
  EXPECT_THAT(
      collectives(partition(b.finish(outputs), {kData, {P(none, "data"), P("data")}, {kAny}}).program, kData),
      ElementsAre("all-reduce f32[8,32] data"));
}

TEST(Partition, ReductionsOfASplitDimension_CombineTheirResults) {
  const auto of = [](DType dtype, const ir::Primitive& reduction) {
    ir::Builder b("reduction");
    ir::Value x = b.input({dtype, {64}});
    const ir::Value outputs[] = {ir::lax::reduce(reduction, x, {0})};
    return collectives(partition(b.finish(outputs), {kData, {P("data")}, {kAny}}).program, kData);
  };
  for (const ir::Primitive* reduction :
       {&ir::reduce_and_p(), &ir::reduce_or_p(), &ir::reduce_max_p(), &ir::reduce_min_p()})
    EXPECT_THAT(of(DType::kBool, *reduction), ElementsAre("all-reduce u8[] data")) << reduction->name;
  EXPECT_THAT(of(DType::kF32, ir::reduce_prod_p()), ElementsAre("all-gather f32[4] data"));
  EXPECT_THAT(of(DType::kI32, ir::reduce_and_p()), ElementsAre("all-gather i32[64] data"));
}

/// The gradient of an embedding: the batch is split, and the table is or is not.
TEST(Partition, SplitUpdates_AreScatteredLocallyAndThenSummed) {
  const auto program = [](bool to_zeros) {
    ir::Builder b("embedding");
    const ir::Value ids = b.input({DType::kI32, {64, 1}}), updates = b.input(f32({64, 16}));
    const ir::Value table = to_zeros ? ir::lax::full(updates, ir::Scalar::of(0.0), DType::kF32, {32, 16})
                                     : b.input(f32({32, 16}));
    const ir::Value outputs[] = {ir::lax::scatter_by(ir::scatter_add_p(), table, ids, updates,
                                                     {{1}, {0}, {0}, {}, {}}, GatherScatterMode::kFillOrDrop,
                                                     false)};
    return b.finish(outputs);
  };
  const PartitionSpec rows = P("data");
  EXPECT_THAT(collectives(partition(program(false), {kData, {rows, rows, P()}, {kAny}}).program, kData),
              ElementsAre("all-reduce f32[32,16] data"));
  EXPECT_THAT(collectives(partition(program(true), {kData, {rows, rows}, {P()}}).program, kData),
              ElementsAre("all-reduce f32[32,16] data"));
  EXPECT_THAT(collectives(partition(program(true), {kData, {rows, rows}, {rows}}).program, kData),
              ElementsAre("reduce-scatter f32[8,16] data"));
}

TEST(Partition, WithoutOutSpecs_DataParallelGradientsAreWhole) {
  Partitioned p = partition(gradient_program(),
                            {kData, {P(), P(), P(), P("data"), P("data"), P()}, {kAny, kAny, kAny, kAny}});
  EXPECT_THAT(p.out_specs, ElementsAre(P(), P(), P(), P()));
}

TEST(Partition, ColumnThenRowSplitMlp_HasOneAllReduce) {
  Partitioned p =
      partition(loss_program(),
                {ir::AxisEnv({{"model", 4}}), {P(none, "model"), P("model"), P("model"), P(), P()}, {kAny}});
  EXPECT_THAT(collectives(p.program, ir::AxisEnv({{"model", 4}})), ElementsAre("all-reduce f32[64,4] model"));
}

TEST(Partition, DataAndTensorParallelGradients_ReduceOverDataOnlyAndStaySplitOverModel) {
  Partitioned p =
      partition(gradient_program(), {kBoth,
                                     {P(none, "model"), P("model"), P("model"), P("data"), P("data"), P()},
                                     {kAny, kAny, kAny, kAny}});
  EXPECT_THAT(collectives(p.program, kBoth),
              UnorderedElementsAre("all-reduce f32[32,4] model", "all-reduce f32[] data",
                                   "all-reduce f32[16,16] data", "all-reduce f32[16] data",
                                   "all-reduce f32[16,4] data"));
  EXPECT_THAT(p.out_specs, ElementsAre(P(), P(none, "model"), P("model"), P("model")));
}

/// w and the moment m of sgd with momentum: m' = 0.9 m + gradient, w' = w - m'. Inputs w, m, x, y.
ir::Program momentum_program() {
  ir::Builder b("momentum");
  ir::Value w = b.input(f32({256, 64})), m = b.input(f32({256, 64}));
  ir::Value x = b.input(f32({512, 256})), y = b.input(f32({512, 64}));
  ir::Value error = ir::lax::sub(matmul(x, w), y);
  ir::Value gradient = ir::lax::dot_general(x, error, {{0}, {0}, {}, {}});
  ir::Value m2 = ir::lax::add(ir::lax::mul(m, ir::lax::full_like(m, 0.9)), gradient);
  const ir::Value outputs[] = {ir::lax::sub(w, m2), m2};
  return b.finish(outputs);
}

TEST(Partition, MomentsSplitOverData_ReduceScatterTheGradientAndGatherTheParameter) {
  Partitioned p =
      partition(momentum_program(), {kData, {P(), P("data"), P("data"), P("data")}, {P(), P("data")}});
  EXPECT_THAT(collectives(p.program, kData),
              ElementsAre("reduce-scatter f32[64,64] data", "all-gather f32[256,64] data"));
}

TEST(Partition, ValueNeededWholeByTwoUses_IsGatheredOnce) {
  ir::Builder b("twice");
  ir::Value x = b.input(f32({8, 4}));
  ir::Value parts[] = {x, x};
  ir::Value first = ir::lax::concatenate(std::span<const ir::Value>(parts), 0);
  ir::Value second = ir::lax::slice(x, {1, 0}, {4, 4});
  const ir::Value outputs[] = {first, second};
  Partitioned p = partition(b.finish(outputs), {kData, {P("data")}, {P(), P()}});
  EXPECT_THAT(collectives(p.program, kData), ElementsAre("all-gather f32[8,4] data"));
}

TEST(Partition, LargeValueThatEveryDeviceComputes_IsAWarning) {
  auto warnings = [](std::int64_t size) {
    ir::Builder b("order");
    const ir::Value outputs[] = {ir::lax::fft(b.input(f32({size})), ir::FftType::kRfft, {size})};
    return partition(b.finish(outputs), {kData, {P("data")}, {kAny}}).warnings;
  };
  EXPECT_THAT(warnings(1 << 16), ::testing::IsEmpty());
  EXPECT_THAT(
      warnings(1 << 18),
      ElementsAre(::testing::AllOf(
          ::testing::HasSubstr("each of the 4 devices along data computes the same 1.0 MiB of c64[131073]"),
          ::testing::HasSubstr("fft has no rule for split operands"))));
}

TEST(Partition, AxisThatMovesBetweenDimensions_IsAnAllToAll) {
  ir::Builder b("move");
  const ir::Value outputs[] = {ir::lax::neg(b.input(f32({8, 4})))};
  Partitioned p = partition(b.finish(outputs), {kData, {P("data")}, {P(none, "data")}});
  EXPECT_THAT(collectives(p.program, kData), ElementsAre("all-to-all f32[8,1] data"));
}

TEST(Partition, FourierTransformOfSplitDimensions_NeedsAnAllToAllForEach) {
  const ir::AxisEnv grid({{"x", 4}, {"y", 2}});
  const std::vector<std::int64_t> lengths = {64, 32, 32};
  const auto transformed = [&](ir::FftType type, const PartitionSpec& spec, bool and_back) {
    ir::Builder b("fft");
    ir::Value x = ir::lax::fft(b.input(Aval{DType::kC64, lengths}), type, lengths);
    if (and_back) x = ir::lax::fft(x, ir::FftType::kIfft, lengths);
    const ir::Value outputs[] = {x};
    const Partitioned p = partition(b.finish(outputs), {grid, {spec}, {kAny}});
    std::string text = p.out_specs.at(0).to_string();
    for (const std::string& collective : collectives(p.program, grid)) text += ", " + collective;
    return text;
  };
  using enum ir::FftType;
  EXPECT_EQ(transformed(kFft, P("x"), false), "P(None, 'x'), all-to-all c64[64,8,32] x");
  EXPECT_EQ(transformed(kIfft, P(none, "x"), false), "P('x'), all-to-all c64[16,32,32] x");
  EXPECT_EQ(transformed(kFft, P("x", "y"), false),
            "P(None, 'x', 'y'), all-to-all c64[16,32,16] y, all-to-all c64[64,8,16] x");
  EXPECT_EQ(transformed(kFft, P("x", "y"), true),
            "P('x', 'y'), all-to-all c64[16,32,16] y, all-to-all c64[64,8,16] x, "
            "all-to-all c64[16,32,16] x, all-to-all c64[16,16,32] y");
  EXPECT_THAT(transformed(kFft, P("x", none, "y"), false), ::testing::Not(::testing::HasSubstr("gather")));
}

TEST(Partition, FourierTransformOfTheOnlyDimension_NeedsThreeAllToAlls) {
  const auto collectives_of = [](std::int64_t size) {
    ir::Builder b("fft");
    const ir::Value outputs[] = {ir::lax::fft(b.input(Aval{DType::kC64, {size}}), ir::FftType::kFft, {size})};
    return collectives(partition(b.finish(outputs), {kData, {P("data")}, {P("data")}}).program, kData);
  };
  EXPECT_THAT(collectives_of(1 << 16),
              ElementsAre("all-to-all c64[4,4096] data", "all-to-all c64[16384,1] data",
                          "all-to-all c64[4,4096] data"));
  EXPECT_THAT(collectives_of(4 * 1001), ElementsAre("all-gather c64[4004] data"));
}

TEST(Partition, DimensionThatTheAxisDoesNotDivide_StaysWhole) {
  ir::Builder b("odd");
  ir::Value x = b.input(f32({8, 3}));
  const ir::Value outputs[] = {ir::lax::reshape(x, {2, 12})};
  Partitioned p = partition(b.finish(outputs), {kData, {P("data")}, {kAny}});
  EXPECT_THAT(p.out_specs, ElementsAre(P()));
  EXPECT_THAT(collectives(p.program, kData), ElementsAre("all-gather f32[8,3] data"));
}

TEST(Partition, NothingSplit_LeavesTheProgramUnchanged) {
  const ir::Program global = gradient_program();
  const ir::AxisEnv one({{"data", 1}});
  for (const auto& [axes, spec] : {std::pair(kData, P()), std::pair(one, P("data"))}) {
    Partitioned p = partition(global, {axes, {P(), P(), P(), spec, spec, P()}, {kAny, kAny, kAny, kAny}});
    EXPECT_EQ(to_string(p.program), to_string(global));
    EXPECT_THAT(p.out_specs, ElementsAre(P(), P(), P(), P()));
  }
}

TEST(Partition, Equations_KeepTheUsersCallSites) {
  ir::Builder b("sites");
  ir::Value x = b.input(f32({8, 4}));
  std::optional<ir::Value> sum;
  {
    CallSiteScope scope({"train.cc", 42, "step"});
    sum = ir::lax::reduce_sum(x, {0});
  }
  const ir::Value outputs[] = {*sum};
  const ir::Program global = b.finish(outputs);
  CallSiteScope around({"jit.cc", 7, "jit"});
  Partitioned p = partition(global, {kData, {P("data")}, {kAny}});
  EXPECT_EQ(describe(p.program, kData),
            "sites(a:f32[2,4])\n"
            "  b:f32[4] = reduce_sum[axes=[0]] a\n"
            "  c:f32[4] = psum[axes=(data)] b  # all-reduce 16 B over data (4 devices) at train.cc:42\n"
            "  return c\n"
            "# 1 collective, 16 B on each device\n");
}

TEST(Partition, InputThatTheMeshDoesNotDivide_ThrowsWithTheNearestSizes) {
  ir::Builder b("step");
  const ir::Value outputs[] = {ir::lax::neg(b.input(f32({10, 64})))};
  const ir::Program global = b.finish(outputs);
  try {
    partition(global, {kData, {P("data")}, {kAny}});
    FAIL() << "no error";
  } catch (const ShardingError& error) {
    EXPECT_STREQ(
        error.what(),
        "[input 0 of step] dimension 0 of f32[10,64] has 10 elements, which mesh axis 'data' of 4 devices "
        "does not divide (remainder 2); the nearest sizes that fit are 8 and 12");
  }
}

TEST(Partition, WrongNumberOfSpecs_Throws) {
  EXPECT_THROW(partition(matmul_program(), {kData, {P()}, {kAny}}), ShardingError);
}

}  // namespace
}  // namespace lockstep::sharding
