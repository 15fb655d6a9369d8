// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/early_pads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reverse.h"
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
using Integers = std::vector<std::int64_t>;

const Aval kPlate{DType::kF64, {8, 8}};

ir::Value number(const ir::Value& like, double value) {
  return ir::lax::full(like, ir::Scalar::of(value), DType::kF64, {});
}

ir::Value padded(const ir::Value& x, double fill, Integers low, Integers high) {
  return ir::lax::pad(x, number(x, fill), std::move(low), std::move(high), Integers(x.aval().shape.size()));
}

/// The 6 x 6 elements from there on.
ir::Value part(const ir::Value& u, std::int64_t i, std::int64_t j) {
  return ir::lax::slice(u, {i, j}, {i + 6, j + 6});
}

/// u plus the sum of two neighbours, in its interior.
ir::Value updated(const ir::Value& u) {
  return ir::lax::add(u, padded(ir::lax::add(part(u, 0, 1), part(u, 2, 1)), 0, {1, 1}, {1, 1}));
}

TEST(EarlyPads, AnUpdateOfTheInterior_IsComputedInTheShapeOfTheArray) {
  const ir::Program program = trace({kPlate}, [](auto v) { return std::vector{updated(v[0])}; });
  const std::string text = ir::to_string(early_pads(program, {}));
  EXPECT_THAT(ir::to_string(program), HasSubstr("[6,6]"));
  EXPECT_THAT(text, Not(HasSubstr("[6,6]")));
  EXPECT_THAT(text, HasSubstr("pad[low=[1,0] high=[-1,0] interior=[0,0]]"));
  EXPECT_THAT(text, HasSubstr("pad[low=[-1,0] high=[1,0] interior=[0,0]]"));
}

TEST(EarlyPads, LoopBodies_AreRewritten) {
  const ir::Program program = trace({kPlate}, [](auto v) { return test::five_steps(v[0], updated); });
  EXPECT_THAT(ir::to_string(early_pads(program, {})), Not(HasSubstr("[6,6]")));
}

TEST(EarlyPads, PadsOfOtherComputations_AreUnchanged) {
  using Make = std::vector<ir::Value> (*)(const ir::Value& u);
  const Make others[] = {
      [](const ir::Value& u) {  // elements change places
        return std::vector{ir::lax::add(u, padded(ir::lax::rev(part(u, 0, 0), {0}), 0, {1, 1}, {1, 1}))};
      },
      [](const ir::Value& u) {  // the sum is used as well
        const ir::Value sum = ir::lax::add(part(u, 0, 1), part(u, 2, 1));
        return std::vector{ir::lax::add(u, padded(sum, 0, {1, 1}, {1, 1})), sum};
      },
      [](const ir::Value& u) {  // the pad is a result
        return std::vector{padded(ir::lax::neg(part(u, 0, 1)), 0, {1, 1}, {1, 1})};
      },
      [](const ir::Value& u) {  // each second element
        const ir::Value x = ir::lax::slice(u, {0, 0}, {8, 8}, {2, 2});
        return std::vector{ir::lax::neg(padded(ir::lax::neg(x), 0, {1, 0}, {0, 0}))};
      },
      [](const ir::Value& u) {  // an array that is no slice
        return std::vector{ir::lax::neg(padded(ir::lax::add(u, u), 0, {1, 1}, {1, 1}))};
      },
      [](const ir::Value& u) {  // mostly padding
        return std::vector{ir::lax::neg(padded(ir::lax::neg(part(u, 0, 1)), 0, {9, 0}, {0, 0}))};
      },
      [](const ir::Value& u) {  // padding between the elements
        return std::vector{
            ir::lax::neg(ir::lax::pad(ir::lax::neg(part(u, 0, 1)), number(u, 0), {0, 0}, {0, 0}, {1, 0}))};
      },
  };
  for (const Make& other : others) {
    const ir::Program program = trace({kPlate}, [&](auto v) { return other(v[0]); });
    EXPECT_EQ(ir::to_string(early_pads(program, {})), ir::to_string(program)) << &other - others;
  }
}

/// A pad of what few operations compute from slices of u, numbers and slices of other sizes.
class Interiors {
 public:
  explicit Interiors(unsigned seed) : random_(seed) {}

  std::vector<ir::Value> operator()(std::span<const ir::Value> inputs) {
    std::vector<ir::Value> made;
    for (int i = 0; i < 3; ++i) {
      const ir::Value& x = inputs[below(inputs.size())];
      made.push_back(part(x, at(x, 0), at(x, 1)));
    }
    made.push_back(ir::lax::broadcast_in_dim(number(inputs[0], -0.5), {6, 6}, {}));
    made.push_back(ir::lax::full(inputs[0], ir::Scalar::of(2.0), DType::kF64, {6, 6}));
    for (int step = 0; step < 6; ++step) {
      const ir::Value &x = made[below(made.size())], &y = made[below(made.size())];
      switch (below(5)) {
        case 0:
          made.push_back(ir::lax::add(x, y));
          break;
        case 1:
          made.push_back(ir::lax::div(x, y));  // by zero where there is padding
          break;
        case 2:
          made.push_back(ir::lax::log(x));
          break;
        case 3:
          made.push_back(ir::lax::select(ir::lax::lt(x, y), y, x));
          break;
        default:
          made.push_back(
              ir::lax::convert_element_type(ir::lax::convert_element_type(x, DType::kF32), DType::kF64));
      }
    }
    const auto low = static_cast<std::int64_t>(below(3)), left = static_cast<std::int64_t>(below(2));
    return {ir::lax::neg(padded(made.back(), below(2) == 0 ? 0 : 7, {low, left}, {2 - low, 1}))};
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t at(const ir::Value& x, std::size_t d) {
    return static_cast<std::int64_t>(below(static_cast<std::size_t>(x.aval().shape[d] - 5)));
  }

  std::mt19937 random_;
};

TEST(EarlyPads, RandomComputations_KeepTheirValues) {
  const std::vector<HostArray> inputs = {test::random({8, 8}, -9, 9, 1), test::random({7, 10}, -9, 9, 2)};
  test::Joined joined;  // all in one, which compiles faster
  const std::vector<ir::Value> values = joined.inputs(inputs);
  int changed = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const ir::Program program = trace(test::avals_of(inputs), Interiors(seed));
    const ir::Program early = early_pads(program, {});
    changed += ir::to_string(early) != ir::to_string(program) ? 1 : 0;
    joined.want(inline_program(joined.builder(), program, values));
    joined.want(inline_program(joined.builder(), early, values));
  }
  EXPECT_GT(changed, 10);
  const std::vector<HostArray> results = joined.run();
  for (std::size_t i = 0; i < results.size(); i += 2) {
    EXPECT_EQ(results[i].shape, results[i + 1].shape);
    EXPECT_THAT(results[i].values,
                ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), results[i + 1].values))
        << "program " << i / 2;
  }
}

}  // namespace
}  // namespace lockstep::transforms
