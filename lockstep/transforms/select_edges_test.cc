// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/select_edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/test_nested_examples.h"

namespace lockstep::transforms {
namespace {

using test::HostArray;
using test::trace;
using ::testing::HasSubstr;
using ::testing::Not;

ir::Value joined(std::vector<ir::Value> parts, std::int64_t dimension) {
  return ir::lax::concatenate(std::span<const ir::Value>(parts), dimension);
}

ir::Value part(const ir::Value& x, std::size_t dimension, std::int64_t from, std::int64_t to) {
  Shape start(x.aval().shape.size()), limit = x.aval().shape;
  start[dimension] = from;
  limit[dimension] = to;
  return ir::lax::slice(x, start, limit);
}

const Aval kRows{DType::kF64, {16, 3}}, kRow{DType::kF64, {1, 3}};

/// The rows above.
ir::Value above(const ir::Value& u, const ir::Value& row) { return joined({row, part(u, 0, 0, 15)}, 0); }

TEST(SelectEdges, AConcatenationOfOneRowAndManyRows_BecomesASelect) {
  const ir::Program program =
      trace({kRows, kRow}, [](auto v) { return std::vector{ir::lax::add(v[0], above(v[0], v[1]))}; });
  const std::string text = ir::to_string(select_edges(program, {}, 0));
  EXPECT_THAT(text, Not(HasSubstr("concatenate")));
  EXPECT_THAT(text, HasSubstr("select"));
  EXPECT_EQ(ir::to_string(select_edges(program, {})), ir::to_string(program)) << "a small array";
}

TEST(SelectEdges, LoopBodies_AreRewritten) {
  const ir::Program program = trace({kRows}, [&](auto v) {
    return test::five_steps(v[0],
                            [](const ir::Value& u) { return ir::lax::add(u, above(u, part(u, 0, 15, 16))); });
  });
  EXPECT_THAT(ir::to_string(select_edges(program, {}, 0)), Not(HasSubstr("concatenate")));
}

TEST(SelectEdges, OtherConcatenations_AreUnchanged) {
  using Make = ir::Value (*)(const ir::Value& u, const ir::Value& row);
  const Make others[] = {
      [](const ir::Value& u, const ir::Value& row) { return above(u, row); },  // a result
      [](const ir::Value& u, const ir::Value& row) { return ir::lax::reduce_sum(above(u, row), {1}); },
      [](const ir::Value& u, const ir::Value&) {  // halves
        return ir::lax::neg(joined({part(u, 0, 8, 16), part(u, 0, 0, 8)}, 0));
      },
      [](const ir::Value& u, const ir::Value& row) {  // of what is computed
        return ir::lax::neg(joined({row, part(ir::lax::neg(u), 0, 0, 15)}, 0));
      },
      [](const ir::Value& u, const ir::Value& row) {  // of four
        return ir::lax::neg(joined({row, row, u, row}, 0));
      },
  };
  for (const Make& other : others) {
    const ir::Program program = trace({kRows, kRow}, [&](auto v) { return std::vector{other(v[0], v[1])}; });
    EXPECT_EQ(ir::to_string(select_edges(program, {}, 0)), ir::to_string(program)) << &other - others;
  }
}

TEST(SelectEdges, EdgesOfEachKindAndDType_KeepTheirValues) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kI32, DType::kU32, DType::kBool}) {
    SCOPED_TRACE(info(dtype).name);
    const std::vector<HostArray> inputs = {test::random({20, 18}, 0, 2, 1, dtype),
                                           test::random({20, 18}, 0, 2, 2, dtype)};
    test::Joined all;  // in one, which compiles faster
    const std::vector<ir::Value> values = all.inputs(inputs);
    std::size_t programs = 0;
    for (std::size_t d : {0, 1}) {
      const std::int64_t size = inputs[0].shape[d];
      for (const auto& [before, behind] : {std::pair(1, 0), {0, 1}, {1, 1}, {2, 0}}) {
        const ir::Program program = trace(test::avals_of(inputs), [&](auto v) {
          std::vector<ir::Value> parts = {part(v[0], d, before, size - behind)};
          if (before > 0) parts.insert(parts.begin(), part(v[1], d, 0, before));
          if (behind > 0) parts.push_back(part(v[1], d, size - behind, size));
          const ir::Value whole = joined(parts, static_cast<std::int64_t>(d));
          return std::vector{ir::lax::select(ir::lax::eq(v[0], v[1]), whole, v[1])};
        });
        const ir::Program selected = select_edges(program, {}, 0);
        EXPECT_THAT(ir::to_string(selected), Not(HasSubstr("concatenate")));
        all.want(inline_program(all.builder(), program, values));
        all.want(inline_program(all.builder(), selected, values));
        ++programs;
      }
    }
    const std::vector<HostArray> results = all.run();
    ASSERT_EQ(results.size(), 2 * programs);
    for (std::size_t i = 0; i < results.size(); i += 2)
      EXPECT_EQ(results[i].values, results[i + 1].values) << "program " << i / 2;
  }
}

}  // namespace
}  // namespace lockstep::transforms
