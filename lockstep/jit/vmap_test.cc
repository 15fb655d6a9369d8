// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/vmap.h"

#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Vmap, DotProduct_GivesOneForEachExample) {
  auto dots = vmap([](Array x, Array y) { return dot(x, y); });
  Array x = waves({5, 3}), y = waves({5, 3}, 2);
  expect_equal(dots(x, y), sum(x * y, 1));
}

TEST(Vmap, InAxes_ChooseTheMappedDimensions) {
  auto products = vmap([](Array m, Array v) { return matmul(m, v); }, {.in_axes = {std::nullopt, 1}});
  Array m = waves({4, 3}), v = waves({3, 5}, 2);
  expect_equal(products(m, v), transpose(matmul(m, v)));
}

TEST(Vmap, OutAxes_ChooseTheDimensionOfTheExamples) {
  auto doubled = vmap([](Array x) { return 2 * x; }, {.out_axes = 1});
  Array x = waves({5, 3});
  expect_equal(doubled(x), 2 * transpose(x));
}

TEST(Vmap, Nested_MapsOverBothArguments) {
  auto table = vmap([](Array a, Array b) { return vmap([&](Array y) { return a * y + 1; })(b); },
                    {.in_axes = {0, std::nullopt}});
  Array x = waves({4}), y = waves({3}, 2);
  expect_equal(table(x, y), outer(x, y) + 1);
}

TEST(Vmap, Grad_GivesAGradientForEachExample) {
  auto loss = [](Array w, Array x) { return square(sum(w * x)); };
  Array w = waves({3}), x = waves({5, 3}, 2);
  Array each = vmap(grad(loss), {.in_axes = {std::nullopt, 0}})(w, x);
  expect_equal(each, 2 * expand_dims(matmul(x, w), 1) * x);
  Array within = jit([&](Array w, Array x) {
    return vmap(grad(loss), {.in_axes = {std::nullopt, 0}})(w, x);
  })(w, x);
  expect_equal(within, each);
}

TEST(Vmap, ManyOperations_EqualALoop) {
  auto f = [](Array x) {
    Array y = concatenate({x, 2 * x}, 0);
    Array z = pad(slice(transpose(y), {0, 1}, {3, 4}), {{1, 0}, {0, 0}}, 1);
    return std::tuple(sum(exp(z), 0), argmax(x, 1), reshape(y, {-1}), max(y));
  };
  Array x = waves({3, 2, 3});
  auto [a, b, c, d] = vmap(f)(x);
  for (int i = 0; i < 3; ++i) {
    auto [a1, b1, c1, d1] = f(index(x, i));
    expect_equal(index(a, i), a1);
    expect_equal(index(b, i), b1);
    expect_equal(index(c, i), c1);
    expect_equal(index(d, i), d1);
  }
}

TEST(Vmap, AnAxisName_LetsCollectivesReachTheOtherExamples) {
  Array x = waves({4, 3});
  const VmapOptions named{.axis_name = "i"};
  expect_equal(vmap([](Array x) { return x - pmean(x, "i"); }, named)(x), x - mean(x, 0));
  expect_equal(vmap([](Array x) { return x * axis_index("i"); }, named)(x), x * expand_dims(arange(4), 1));
  expect_equal(vmap([](Array x) { return pmax(x, "i") + pmin(x, "i"); }, named)(x),
               broadcast_to(max(x, 0) + min(x, 0), {4, 3}));
  Array gathered = vmap([](Array x) { return all_gather(x, "i"); }, named)(x);
  expect_equal(gathered, broadcast_to(x, {4, 4, 3}));
  expect_equal(vmap([](Array x) { return all_gather(x, "i", {.axis = 1}); }, named)(x),
               broadcast_to(transpose(x), {4, 3, 4}));
  Array shifted = vmap([](Array x) { return ppermute(x, "i", {{0, 1}, {1, 2}, {2, 3}}); }, named)(x);
  expect_equal(shifted, concatenate({zeros({1, 3}), slice(x, {0, 0}, {3, 3})}));
  Array square = waves({4, 4});
  expect_equal(vmap([](Array x) { return all_to_all(x, "i", 0, 0); }, named)(square), transpose(square));
  expect_equal(vmap([](Array x) { return psum_scatter(x, "i"); }, named)(square), sum(square, 0));
}

TEST(Vmap, PsumOfAnUnmappedInput_AddsItOncePerExample) {
  Array x = ones({4});
  auto f =
      vmap([](Array, Array y) { return psum(y, "i"); }, {.in_axes = {0, std::nullopt}, .axis_name = "i"});
  expect_equal(f(x, Array(2.0f) * 1), 8 * ones({4}));
}

TEST(Vmap, DerivativesThroughItsCollectives_EqualJaxs) {
  Array x = array({1.f, 2.f, 3.f});
  auto total = [](Array x) { return psum(x * x, "i"); };
  const VmapOptions named{.axis_name = "i"};
  expect_equal(vmap(grad(total), named)(x), array({6.f, 12.f, 18.f}));
  expect_equal(grad([&](Array x) { return sum(vmap(total, named)(x)); })(x), array({6.f, 12.f, 18.f}));
}

TEST(Vmap, NestedAxisNames_ReachTheirOwnExamples) {
  Array x = waves({2, 3});
  auto inner = [](Array x) { return psum(x, "i") - psum(x, "j") + psum(x, {"i", "j"}); };
  auto outer = [&](Array row) { return vmap(inner, {.axis_name = "j"})(row); };
  Array expected = expand_dims(sum(x, 0), 0) - expand_dims(sum(x, 1), 1) + sum(x);
  expect_equal(vmap(outer, {.axis_name = "i"})(x), expected);
}

TEST(Vmap, ACollectiveOverAnUnknownAxis_IsAnError) {
  EXPECT_THAT(error_of<ShardingError>(
                  [] { vmap([](Array x) { return psum(x, "k"); }, {.axis_name = "i"})(ones({3})); }),
              AllOf(HasSubstr("'k'"), HasSubstr("(i)")));
}

TEST(Vmap, WrongAxesAndSizes_AreErrors) {
  auto add_both = [](Array x, Array y) { return x + y; };
  EXPECT_THAT(error_of<ShapeError>([&] { vmap(add_both)(ones({3}), ones({4})); }),
              AllOf(HasSubstr("3 and 4"), HasSubstr("vmap_test.cc:")));
  EXPECT_THAT(error_of<ShapeError>([&] {
                vmap(add_both, {.in_axes = {2, 0}})(ones({3}), ones({3}));
              }),
              AllOf(HasSubstr("axis 2"), HasSubstr("f32[3]")));
  EXPECT_THAT(error_of<ShapeError>([&] {
                vmap(add_both, {.in_axes = {std::nullopt, std::nullopt}})(ones({3}), ones({3}));
              }),
              HasSubstr("no argument is mapped"));
}

}  // namespace
}  // namespace lockstep
