// SPDX-License-Identifier: Apache-2.0
// Why each collective is there: the texts of CommunicationLine::reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/partitioner.h"

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;

const ir::AxisEnv kData({{"data", 4}});
const ir::AxisEnv kBoth({{"data", 2}, {"model", 2}});

Aval f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

using Function = std::function<ir::Value(std::vector<ir::Value>)>;

std::vector<std::string> reasons(const std::vector<Shape>& shapes, const Function& function,
                                 const PartitionOptions& options) {
  ir::Builder builder("f");
  std::vector<ir::Value> inputs;
  for (const Shape& shape : shapes) inputs.push_back(builder.input(f32(shape)));
  const ir::Value outputs[] = {function(inputs)};
  const Partitioned p = partition(builder.finish(outputs), options);
  std::vector<std::string> all;
  for (const CommunicationLine& line : communication(p.program, options.axes))
    all.push_back(line.kind + " because " + line.reason);
  return all;
}

ir::Value matmul(const std::vector<ir::Value>& in) {
  return ir::lax::dot_general(in[0], in[1], {{1}, {0}, {}, {}});
}

TEST(Reasons, OperandsSplitOverOneAxis_NameTheOtherWaysCosts) {
  EXPECT_THAT(reasons({{8, 16}, {16, 32}}, matmul, {kData, {P("data"), P(none, "data")}, {std::nullopt}}),
              ElementsAre("all-gather because operand 0 of dot_general, f32[8,16], goes from P('data') to "
                          "P(); this way a device receives 384 B; not taken: operand 1 from P(None, 'data') "
                          "to P() (1.5 KiB), result 0 from P('data') to P(None, 'data') (192 B)"));
}

TEST(Reasons, SplitContraction_NamesTheAxisThatIsCombined) {
  EXPECT_THAT(reasons({{8, 16}, {16, 32}}, matmul, {kData, {P(none, "data"), P("data")}, {std::nullopt}}),
              ElementsAre("all-reduce because result 0 of dot_general, f32[8,32], is put together from the "
                          "devices' parts over data"));
  EXPECT_THAT(
      reasons({{8, 16}, {16, 32}}, matmul, {kData, {P(none, "data"), P("data")}, {P("data")}}),
      ElementsAre("reduce-scatter because result 0 of dot_general, f32[8,32], is put together from the "
                  "devices' parts over data; this way a device receives 768 B; not taken: operand 0 from "
                  "P(None, 'data') to P('data') (96 B), operand 1 from P('data') to P() (1.5 KiB)"));
}

TEST(Reasons, SliceOfASplitDimension_NamesTheGatheredOperand) {
  EXPECT_THAT(
      reasons({{8, 4}},
              [](auto in) {
                return ir::lax::slice(in[0], {1, 0}, {5, 4});
              },
              {kData, {P("data")}, {std::nullopt}}),
      ElementsAre("all-gather because operand 0 of slice, f32[8,4], goes from P('data') to P(); this way "
                  "a device receives 96 B; not taken: elements of others' parts of operand 0 (32 B), "
                  "result 0 from P('data') to P() (48 B)"));
}

TEST(Reasons, ReversalOfASplitDimension_NamesElementsOfOthersParts) {
  EXPECT_THAT(
      reasons({{4096, 64}}, [](auto in) { return ir::lax::rev(in[0], {0}); },
              {kData, {P("data")}, {std::nullopt}}),
      ElementsAre(
          "permute because for its part of the result of rev, f32[4096,64], a device needs "
          "elements of others' parts; this way a device receives 256.0 KiB; not taken: operand 0 from "
          "P('data') to P() (768.0 KiB)"));
}

TEST(Reasons, SizeThatTheAxesDoNotDivide_IsGiven) {
  EXPECT_THAT(reasons({{8, 3}},
                      [](auto in) {
                        return ir::lax::reshape(in[0], {2, 12});
                      },
                      {kData, {P("data")}, {std::nullopt}}),
              ElementsAre("all-gather because operand 0 of reshape, f32[8,3], goes from P('data') to P(): "
                          "reshape has 2 elements there, which 4 devices do not divide"));
}

/// A primitive of which only shape and value are known.
const ir::Primitive& unknown_p() {
  static const ir::Primitive p = [] {
    ir::Primitive p = ir::neg_p();
    p.name = "unknown";
    p.sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs, const ir::OpParams&) {
      return ir::ShardingRule::replicated(inputs, outputs);
    };
    return p;
  }();
  return p;
}

TEST(Reasons, OperationWithoutARule_NamesIt) {
  EXPECT_THAT(reasons({{8, 4}}, [](auto in) { return in[0].builder().emit(unknown_p(), {}, in).front(); },
                      {kData, {P("data")}, {std::nullopt}}),
              ElementsAre("all-gather because operand 0 of unknown, f32[8,4], goes from P('data') to P(): "
                          "unknown has no rule for split operands, each device computes the whole"));
}

TEST(Reasons, ShardingsTheUserAsksFor_AreNamed) {
  auto constrained = [](auto in) {
    return ir::lax::sharding_constraint(in[0], {{{}, {"data"}}, {"data"}, {4}, {0, 1, 2, 3}, {}});
  };
  EXPECT_THAT(reasons({{8, 4}}, constrained, {kData, {P("data")}, {P()}}),
              ElementsAre("all-to-all because the operand of with_sharding_constraint, f32[8,4], goes from "
                          "P('data') to P(None, 'data'): so its spec asks",
                          "all-gather because result 0 of the program, f32[8,4], goes from P(None, 'data') "
                          "to P(): the result must be split so"));
}

TEST(Explain, GivesALineAndAReasonPerCollective) {
  EXPECT_EQ(explain({{0, "all-gather", {"x"}, 4, 96, {"a.cc", 3, "f"}, 1, "of this"},
                     {1, "all-reduce", {"x", "y"}, 8, 4, {"a.cc", 4, "f"}, 10, ""}}),
            "all-gather 96 B over x (4 devices) at a.cc:3\n"
            "  of this\n"
            "all-reduce 4 B over x,y (8 devices) at a.cc:4, 10 times\n"
            "  as the program says\n");
}

}  // namespace
}  // namespace lockstep::sharding
