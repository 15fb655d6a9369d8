// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/gather_again.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/communication.h"

// That the elements are those of the program as it was: partitioned_values_test.cc, and the jitted
// gathered_test.cc.

namespace lockstep::sharding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const ir::AxisEnv& gather_axes() {
  static const ir::AxisEnv env({{"x", 4}});
  return env;
}

/// Three layers forwards and then backwards, as a partitioned program has them: w1 w2 w3 w3 w2 w1. A weight
/// is 8 x 8, 256 B, and is used twice; `view` makes of what was gathered what the products take.
template <class View>
ir::Program layers(const View& view) {
  const ir::AxisEnvScope scope(gather_axes());
  ir::Builder b("layers");
  const ir::Value x = b.input({DType::kF32, {8, 8}});
  std::vector<ir::Value> parts, weights;
  for (int i = 0; i < 3; ++i) parts.push_back(b.input({DType::kF32, {2, 8}}));
  for (const ir::Value& part : parts) weights.push_back(view(ir::lax::all_gather(part, {"x"}, 0)));
  ir::Value h = x;
  for (const int i : {0, 1, 2, 2, 1, 0})
    h = ir::lax::dot_general(h, weights[static_cast<std::size_t>(i)], {{1}, {0}, {}, {}});
  b.explain(0, "for the product");
  const ir::Value outputs[] = {h};
  return b.finish(outputs);
}

/// Which weights' gathers and which products there are, in order: "g1" is a gather of the first weight's
/// parts.
std::string order(const ir::Program& program) {
  std::string text;
  for (const ir::Equation& equation : program.equations) {
    if (equation.primitive == &ir::all_gather_p()) text += "g" + std::to_string(equation.inputs[0]);
    if (equation.primitive == &ir::dot_general_p()) text += "*";
  }
  return text;
}

std::string with(const ir::Program& program, std::int64_t kept_bytes, std::size_t soon = 0) {
  return order(gather_again(program, kept_bytes, soon));
}

ir::Value as_it_is(const ir::Value& x) { return x; }
ir::Value turned(const ir::Value& x) { return ir::lax::transpose(x, {1, 0}); }

TEST(GatherAgain, ValuesUsedLast_AreGatheredAgainFirst) {
  const ir::Program program = layers(as_it_is);
  // Between the two uses of the last one there is nothing, so there are two to be kept.
  EXPECT_EQ(with(program, 512), "g1g2g3******");
  EXPECT_EQ(with(program, 511), "g1g2g3*****g1*");
  EXPECT_EQ(with(program, 256), "g1g2g3*****g1*");
  EXPECT_EQ(with(program, 255), "g1g2g3****g2*g1*");
  EXPECT_EQ(with(program, 0), "g1g2g3****g2*g1*");
  EXPECT_EQ(with(program, 0, 3), "g1g2g3*****g1*");
  EXPECT_EQ(with(program, 0, 5), "g1g2g3******");
}

TEST(GatherAgain, OperationsOnAGatheredValue_AreRepeatedWithIt) {
  const ir::Program again = gather_again(layers(turned), 0, 0);
  EXPECT_EQ(order(again), "g1g2g3****g2*g1*");
  const auto transposes = std::ranges::count(again.equations, &ir::transpose_p(), &ir::Equation::primitive);
  EXPECT_EQ(transposes, 5);
}

TEST(GatherAgain, GathersOfTheUser_StayAsTheyAre) {
  ir::Program program = layers(as_it_is);
  for (ir::Equation& equation : program.equations) equation.origin = ir::Origin::kProgram;
  EXPECT_EQ(order(gather_again(program, 0, 0)), "g1g2g3******");
}

TEST(GatherAgain, TheReason_NamesTheMemoryThatKeepingWouldTake) {
  const ir::Program again = gather_again(layers(as_it_is), 256, 0);
  const std::vector<CommunicationLine> lines = communication(again, gather_axes());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2].reason, "for the product");
  EXPECT_THAT(lines[3].reason,
              AllOf(HasSubstr("for the product; gathered again: keeping it since "),
                    HasSubstr(" would take 256 B, and kept gathered values may take 256 B")));
}

TEST(GatherAgain, LaterGathers_AreNotCombinedWithEarlierOnes) {
  const ir::Program again = gather_again(layers(as_it_is), 0, 0);
  EXPECT_THAT(order(combine_collectives(again, gather_axes(), {})),
              ::testing::MatchesRegex("g[0-9]+[*]{4}g2[*]g1[*]"));
}

}  // namespace
}  // namespace lockstep::sharding
