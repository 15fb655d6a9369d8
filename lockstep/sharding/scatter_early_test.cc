// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/scatter_early.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

// That the elements are those of the program as it was: partitioned_values_test.cc.

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;

/// Two gradients, and their sums over the devices at the end, as a partitioned step has them.
ir::Program step() {
  const ir::AxisEnv axes({{"x", 4}});
  const ir::AxisEnvScope scope(axes);
  ir::Builder b("step");
  const ir::Value x = b.input({DType::kF32, {8, 8}});
  const ir::Value first = ir::lax::dot_general(x, x, {{1}, {0}, {}, {}});
  const ir::Value second = ir::lax::dot_general(first, x, {{1}, {0}, {}, {}});
  const ir::Value outputs[] = {ir::lax::psum_scatter(first, {"x"}, 0),
                               ir::lax::psum_scatter(second, {"x"}, 0)};
  b.explain(2, "the first");
  b.explain(3, "the second");
  return b.finish(outputs);
}

std::vector<std::string> names(const ir::Program& program) {
  std::vector<std::string> names;
  for (const ir::Equation& equation : program.equations) names.push_back(equation.primitive->name);
  return names;
}

TEST(ScatterEarly, Sums_MoveRightAfterTheirTerms) {
  const ir::Program program = step();
  ASSERT_THAT(names(program), ElementsAre("dot_general", "dot_general", "psum_scatter", "psum_scatter"));
  const ir::Program early = scatter_early(program);
  EXPECT_THAT(names(early), ElementsAre("dot_general", "psum_scatter", "dot_general", "psum_scatter"));
  EXPECT_EQ(early.equations[1].reason, "the first");
  EXPECT_EQ(early.equations[3].reason, "the second");
}

/// The update comes last: terms, rate, products with it, sums.
TEST(ScatterEarly, OperationsBetweenTermsAndSum_MoveWithIt) {
  const ir::AxisEnv axes({{"x", 4}});
  const ir::AxisEnvScope scope(axes);
  ir::Builder b("step");
  const ir::Value x = b.input({DType::kF32, {8, 8}});
  const ir::Value first = ir::lax::dot_general(x, x, {{1}, {0}, {}, {}});
  const ir::Value second = ir::lax::dot_general(first, x, {{1}, {0}, {}, {}});
  const ir::Value third = ir::lax::dot_general(second, x, {{1}, {0}, {}, {}});
  const ir::Value rate = ir::lax::full(x, ir::Scalar::of(0.1), DType::kF32, {8, 8});
  const ir::Value outputs[] = {ir::lax::psum_scatter(ir::lax::mul(second, rate), {"x"}, 0),
                               ir::lax::psum_scatter(ir::lax::neg(third), {"x"}, 0)};
  b.explain(0, "a sum");
  const ir::Program program = b.finish(outputs);
  ASSERT_THAT(names(program), ElementsAre("dot_general", "dot_general", "dot_general", "full", "mul",
                                          "psum_scatter", "neg", "psum_scatter"));
  EXPECT_THAT(names(scatter_early(program)),
              ElementsAre("dot_general", "dot_general", "full", "mul", "psum_scatter", "dot_general", "neg",
                          "psum_scatter"));
}

/// A sum of a sum and of a term that is computed between the two.
TEST(ScatterEarly, ASumOfASum_MovesAfterAllItsTerms) {
  const ir::AxisEnv axes({{"x", 4}, {"y", 2}});
  const ir::AxisEnvScope scope(axes);
  ir::Builder b("step");
  const ir::Value x = b.input({DType::kF32, {8, 8}}), w = b.input({DType::kF32, {2, 8}});
  const ir::Value first = ir::lax::dot_general(x, x, {{1}, {0}, {}, {}});
  const ir::Value second = ir::lax::dot_general(w, x, {{1}, {0}, {}, {}});
  const ir::Value sum = ir::lax::psum_scatter(first, {"x"}, 0);
  const ir::Value outputs[] = {ir::lax::psum_scatter(ir::lax::add(sum, second), {"y"}, 0)};
  b.explain(0, "a sum");
  const std::vector<std::string> early = names(scatter_early(b.finish(outputs)));
  EXPECT_THAT(early, ::testing::Contains("psum_scatter").Times(2));
  EXPECT_EQ(early[0], "dot_general");
  EXPECT_EQ(early[1], "psum_scatter");
  EXPECT_LT(std::ranges::find(early | std::views::drop(1), "dot_general") - early.begin(),
            std::ranges::find(early, "add") - early.begin());
}

/// Sums that the user wrote stay in their order.
TEST(ScatterEarly, SumsOfTheUser_KeepTheirPlace) {
  ir::Program program = step();
  program.equations[2].origin = ir::Origin::kProgram;
  const ir::Program early = scatter_early(program);
  EXPECT_THAT(names(early), ElementsAre("dot_general", "dot_general", "psum_scatter", "psum_scatter"));
  EXPECT_EQ(early.equations[2].reason, "the second");
  EXPECT_EQ(early.equations[3].reason, "the first");
}

}  // namespace
}  // namespace lockstep::sharding
