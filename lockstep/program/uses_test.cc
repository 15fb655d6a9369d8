// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/uses.h"

#include <gmock/gmock.h>

#include "lockstep/program/primitives/elementwise.h"

namespace lockstep::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Uses, CountEachOperandAndTheOutputs) {
  Builder builder;
  const Aval aval{DType::kF32, {4}};
  const Value x = builder.input(aval), unused = builder.input(aval);
  const Value square = lax::mul(x, x), sum = lax::add(square, x);
  const Program program = builder.finish(std::vector<Value>{sum, square});
  const Uses uses(program);
  EXPECT_THAT(uses.of(x.var()), ElementsAre(0, 0, 1));
  EXPECT_THAT(uses.of(square.var()), ElementsAre(1, 2));
  EXPECT_EQ(uses.last(square.var()), 2);
  EXPECT_EQ(uses.count(sum.var()), 1);
  EXPECT_THAT(uses.of(unused.var()), IsEmpty());
  EXPECT_FALSE(uses.last(unused.var()));
  EXPECT_EQ(Uses(program, std::vector<Var>{unused.var()}).last(unused.var()), 2);
}

TEST(UsesWithin, ALoopsCarry_IsUsedInItsConditionToo) {
  constexpr int kEquation = NestedLink::kEquation;
  // A loop's links: program 0 is its condition, program 1 its body.
  const std::vector<NestedLink> links = {
      {kEquation, 0, 0, 0}, {kEquation, 0, 1, 0}, {1, 0, 1, 0}, {1, 0, 0, 0}, {1, 0, kEquation, 0}};
  EXPECT_THAT(uses_within(links, 1, 0), SizeIs(3));
  EXPECT_THAT(uses_within(links, kEquation, 0), SizeIs(2));
  EXPECT_FALSE(decides(links, 1, 0));
  EXPECT_TRUE(decides(links, 0, 0));
}

}  // namespace
}  // namespace lockstep::ir
