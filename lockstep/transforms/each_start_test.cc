// SPDX-License-Identifier: Apache-2.0
// Slices and updates that start elsewhere in each example of a vmap.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/vjp.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using namespace test;

/// x[i : i + 2, j : j + 3] of x: f64[4, 5], with starts of this dtype.
ir::Program slices(DType dtype = DType::kI32) {
  return trace({{DType::kF64, {4, 5}}, {dtype, {}}, {dtype, {}}}, [](std::span<const ir::Value> v) {
    return std::vector{ir::lax::dynamic_slice(v[0], v.subspan(1), {2, 3})};
  });
}

/// x with u: f64[2, 5] put in at (i, j); in the second dimension there is one place only.
ir::Program updates() {
  return trace({{DType::kF64, {4, 5}}, {DType::kF64, {2, 5}}, {DType::kI32, {}}, {DType::kI32, {}}},
               [](std::span<const ir::Value> v) {
                 return std::vector{ir::lax::dynamic_update_slice(v[0], v[1], v.subspan(2))};
               });
}

HostArray example(const HostArray& x, std::int64_t i) {
  HostArray one{x.dtype, Shape(x.shape.begin() + 1, x.shape.end()), {}};
  const auto n = num_elements(one.shape);
  one.values.assign(x.values.begin() + i * n, x.values.begin() + (i + 1) * n);
  return one;
}

/// The program for many examples is the program for one after the other.
void expect_each(const ir::Program& program, const std::vector<bool>& batched,
                 const std::vector<HostArray>& inputs, std::int64_t size) {
  const std::vector<HostArray> together = evaluate(vmap(program, batched, {size}), inputs);
  for (std::int64_t i = 0; i < size; ++i) {
    std::vector<HostArray> one;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      one.push_back(batched[k] ? example(inputs[k], i) : inputs[k]);
    const std::vector<HostArray> alone = evaluate(program, one);
    for (std::size_t k = 0; k < alone.size(); ++k) {
      const HostArray part = example(together[k], i);
      EXPECT_EQ(part.shape, alone[k].shape);
      for (std::size_t e = 0; e < part.values.size(); ++e)
        EXPECT_NEAR(part.values[e], alone[k].values[e], 1e-12) << "example " << i;
    }
  }
}

HostArray starts(DType dtype, std::vector<double> values) {
  return {dtype, {static_cast<std::int64_t>(values.size())}, std::move(values)};
}

TEST(EachStart, SliceStartsOfAnyDType_AreClampedAsForOneExample) {
  const HostArray one = random({4, 5}, -1, 1), each = random({6, 4, 5}, -1, 1);
  const HostArray i = starts(DType::kI32, {0, 1, 2, 3, -7, 100}),
                  j = starts(DType::kI32, {-1, 0, 1, 2, 3, 99});
  expect_each(slices(), {true, true, true}, {each, i, j}, 6);
  expect_each(slices(), {false, true, true}, {one, i, j}, 6);
  expect_each(slices(), {true, true, false}, {each, i, scalar(1, DType::kI32)}, 6);
  expect_each(slices(), {true, false, false}, {each, scalar(9, DType::kI32), scalar(1, DType::kI32)}, 6);
  auto of_dtype = [&](DType dtype, std::vector<double> i, std::vector<double> j) {
    expect_each(slices(dtype), {true, true, true},
                {each, starts(dtype, std::move(i)), starts(dtype, std::move(j))}, 6);
  };
  of_dtype(DType::kI8, {0, 1, 2, 127, -128, -1}, {3, 2, 1, 0, -1, 100});
  of_dtype(DType::kU8, {0, 1, 2, 127, 128, 255}, {0, 1, 2, 3, 128, 255});
  of_dtype(DType::kI64, {0, 1, 4294967296.0, -4294967296.0, 2, 3}, {2, 1, 0, 3, 4294967297.0, -1});
  of_dtype(DType::kU32, {0, 1, 2, 3, 2147483648.0, 4294967295.0}, {4294967295.0, 2147483648.0, 0, 1, 2, 3});
}

TEST(EachStart, UpdateStarts_AreClampedAsForOneExample) {
  const HostArray x = random({4, 5}, -1, 1), xs = random({6, 4, 5}, -1, 1), u = random({2, 5}, -1, 1, 2),
                  us = random({6, 2, 5}, -1, 1, 3);
  const HostArray i = starts(DType::kI32, {0, 1, 2, 3, -7, 100}), j = starts(DType::kI32, {0, 1, 2, 3, 4, 5});
  expect_each(updates(), {true, true, true, true}, {xs, us, i, j}, 6);
  expect_each(updates(), {false, true, true, false}, {x, us, i, scalar(0, DType::kI32)}, 6);
  expect_each(updates(), {false, false, true, true}, {x, u, i, j}, 6);
  expect_each(updates(), {true, false, false, true}, {xs, u, scalar(1, DType::kI32), j}, 6);
}

TEST(EachStart, Derivatives_EqualThoseOfEachExample) {
  const HostArray xs = random({3, 4, 5}, -1, 1), us = random({3, 2, 5}, -1, 1, 3);
  const HostArray i = starts(DType::kI32, {-1, 1, 9}), j = starts(DType::kI32, {1, 0, 2});
  expect_each(vjp(slices(), {true, false, false}), {true, true, true, true},
              {xs, i, j, random({3, 2, 3}, -1, 1)}, 3);
  expect_each(vjp(updates(), {true, true, false, false}), {true, true, true, true, true},
              {xs, us, i, j, random({3, 4, 5}, -1, 1)}, 3);
  expect_each(jvp(updates(), {true, true, false, false}), {true, true, true, true, true, true},
              {xs, us, i, j, random({3, 4, 5}, -1, 1), random({3, 2, 5}, -1, 1)}, 3);
  // And derivatives of what vmap made.
  const std::vector<bool> all(4, true);
  const auto backwards = evaluate(vjp(vmap(updates(), all, {3}), {true, true, false, false}),
                                  {xs, us, i, j, random({3, 4, 5}, -1, 1, 7)});
  const auto expected =
      evaluate(vmap(vjp(updates(), {true, true, false, false}), {true, true, true, true, true}, {3}),
               {xs, us, i, j, random({3, 4, 5}, -1, 1, 7)});
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_EQ(backwards[k].values, expected[k].values);
}

TEST(EachStart, NumberOfEquations_DoesNotDependOnTheNumberOfExamples) {
  for (const ir::Program& program : {slices(), updates()}) {
    const std::vector<bool> all(program.inputs.size(), true);
    EXPECT_EQ(vmap(program, all, {2}).equations.size(), vmap(program, all, {512}).equations.size());
  }
  const ir::Program mapped = vmap(slices(), {true, true, true}, {512});
  EXPECT_EQ(std::ranges::count(mapped.equations, &ir::gather_p(), &ir::Equation::primitive), 1);
  const ir::Program written = vmap(updates(), {true, true, true, true}, {512});
  EXPECT_EQ(std::ranges::count(written.equations, &ir::scatter_p(), &ir::Equation::primitive), 1);
}

}  // namespace
}  // namespace lockstep::transforms
