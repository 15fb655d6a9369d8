// SPDX-License-Identifier: Apache-2.0
// Operations that move elements along a split dimension: each device gets what its part of the result needs
// of the others, and no more.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/nn/nn.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Array over_x(const Array& array, const PartitionSpec& spec = P("x")) {
  return device_put(array, NamedSharding(line_mesh(), spec));
}

/// Expects the same of a function of an array with split rows, and of its gradient, as with the whole array;
/// returns what the function exchanges.
std::vector<std::string> moved(const std::function<Array(Array)>& function, const Array& x,
                               const PartitionSpec& spec = P("x")) {
  auto jitted = jit([&](Array a) { return function(a); });
  auto gradient = [&](Array a) { return grad([&](Array b) { return sum(sin(function(b))); })(a); };
  expect_equal(jitted(over_x(x, spec)), function(x));
  expect_equal(jit(gradient)(over_x(x, spec)), gradient(x));
  return exchanges(jitted, over_x(x, spec));
}

const Shape kShape = {64, 256};  // a row is 1 KiB

TEST(MovedElements, ARoll_MovesOnlyTheRowsThatChangeDevices) {
  const Array x = waves(kShape);
  EXPECT_THAT(moved([](Array a) { return roll(a, 1, 0); }, x), ElementsAre("1 x permute of 1024 B"));
  // By more than a part: from two devices.
  EXPECT_THAT(moved([](Array a) { return roll(a, 20, 0); }, x),
              ElementsAre("1 x permute of 4096 B", "1 x permute of 12288 B"));
  EXPECT_THAT(moved([](Array a) { return roll(a, 3, 1); }, x), IsEmpty());
  // Written out.
  EXPECT_THAT(moved(
                  [](Array a) {
                    return concatenate({a[{slice(32, none)}], a[{slice(none, 32)}]}, 0);
                  },
                  x),
              ElementsAre("1 x permute of 16384 B"));
}

TEST(MovedElements, ATokenShift_MovesOnlyTheRowBefore) {
  const Array x = waves(kShape);
  EXPECT_THAT(moved(
                  [](Array a) {
                    return pad(a[{slice(none, -1)}], {{1, 0}, {0, 0}}) + a;
                  },
                  x),
              ElementsAre("1 x permute of 1024 B"));
  EXPECT_THAT(moved([](Array a) { return mean(square(a[{slice(1, none)}] - a[{slice(none, -1)}])); }, x),
              ElementsAre("1 x permute of 1024 B"));
}

TEST(MovedElements, AStencil_MovesOnlyNeighbouringRows_EvenIfThePaddedSizeIsDivisible) {
  const Array x = waves(kShape);
  auto stencil = [](std::int64_t n) {
    return [n](Array a) {
      const Array p = pad(a, {{n, n}, {n, n}});
      const Slice rows = slice(n, -n), columns = slice(n, -n);
      return a + p[{slice(none, -2 * n), columns}] + p[{slice(2 * n, none), columns}] +
             p[{rows, slice(none, -2 * n)}] + p[{rows, slice(2 * n, none)}];
    };
  };
  EXPECT_THAT(moved(stencil(1), x), ElementsAre("1 x permute of 1024 B", "1 x permute of 1024 B"));
  EXPECT_THAT(moved(stencil(2), x), ElementsAre("1 x permute of 2048 B", "1 x permute of 2048 B"));
}

TEST(MovedElements, AnInteriorUpdate_MovesTheSameRowsAsAStencil) {
  const Array x = waves(kShape);
  auto updated = [](Array a) {
    const Slice in = slice(1, -1);
    return a.at({in, in}).add(a[{slice(none, -2), in}] + a[{slice(2, none), in}] - 2. * a[{in, in}]);
  };
  EXPECT_THAT(moved(updated, x), ElementsAre("1 x permute of 1024 B", "1 x permute of 1024 B"));
}

TEST(MovedElements, ASliceOfAPad_MovesWhatOnePadMoves) {
  const Array x = waves(kShape);
  auto shifted = [](Array a) { return pad(a, {{1, 0}, {0, 0}})[{slice(none, -1)}] + a; };
  EXPECT_THAT(moved(shifted, x), ElementsAre("1 x permute of 1024 B"));
  // Elements that another operation uses besides are there, too.
  auto both = [](Array a) {
    const Array wide = pad(a, {{2, 1}, {0, 0}}, 3);
    return wide[{slice(4, 44)}] * sum(wide);
  };
  moved(both, x);
}

TEST(MovedElements, HalvesStridesAndFlips_MoveOnlyWhatTheResultNeeds) {
  const Array x = waves(kShape);
  // The first half is of devices 0 and 1: 8 rows for each of the others.
  EXPECT_THAT(moved([](Array a) { return a[{slice(none, 32)}] * 2.; }, x),
              ElementsAre("1 x permute of 8192 B", "1 x permute of 8192 B"));
  EXPECT_THAT(moved([](Array a) { return a[{slice(none, none, 2)}] * 2.; }, x), IsEmpty());
  EXPECT_THAT(moved([](Array a) { return flip(a, 0); }, x), ElementsAre("1 x permute of 16384 B"));
}

TEST(MovedElements, ReadingOneRow_MovesOnlyThatRow) {
  EXPECT_THAT(moved([](Array a) { return a[37] * 2.; }, waves(kShape)),
              ElementsAre("1 x all-reduce of 1024 B"));
}

TEST(MovedElements, RunningSums_MoveOnlyTheTotals) {
  const Array x = waves(kShape);
  EXPECT_THAT(moved([](Array a) { return cumsum(a, 0); }, x), ElementsAre("1 x all-gather of 4096 B"));
  EXPECT_THAT(moved([](Array a) { return cumprod(a + 0.9, 0); }, x), ElementsAre("1 x all-gather of 4096 B"));
}

TEST(MovedElements, ArgmaxAndArgmin_MoveOnlyEachDevicesExtremes) {
  const Array x = waves({64, 128});
  EXPECT_THAT(exchanges(jit([](Array a) { return argmax(a, 1); }), over_x(x, P(none, "x"))),
              ElementsAre("1 x all-reduce of 256 B", "1 x all-reduce of 256 B"));
  for (int axis : {0, 1}) {
    auto f = [axis](Array a) { return std::pair(argmax(a, axis), argmin(round(a), axis)); };
    const auto got = jit(f)(over_x(x, P(none, "x"))), expected = f(x);
    expect_equal(got.first, expected.first);
    expect_equal(got.second, expected.second);
  }
  // The first NaN, and the first of equals.
  const Array some = where(arange(8) == 5, NAN, 1.);
  EXPECT_EQ(jit([](Array a) { return argmax(a); })(over_x(some)).item<int>(), 5);
  EXPECT_EQ(jit([](Array a) { return argmin(a); })(over_x(ones({8}))).item<int>(), 0);
}

TEST(MovedElements, ImagesSplitByRows_MoveOnlyHalos) {
  const Array images = waves({2, 16, 16, 4}), kernels = waves({3, 3, 4, 4}, 3);
  const PartitionSpec rows = P(none, "x");
  auto convolved = [&](Array a) { return nn::conv(a, kernels); };
  // One row of pixels from each side: 2 x 16 x 4 numbers.
  EXPECT_THAT(moved(convolved, images, rows), ElementsAre("1 x permute of 512 B", "1 x permute of 512 B"));
  EXPECT_THAT(moved(
                  [](Array a) {
                    return nn::max_pool(a, {2, 2}, {.strides = {2, 2}});
                  },
                  images, rows),
              IsEmpty());
  EXPECT_THAT(moved(
                  [](Array a) {
                    return nn::avg_pool(a, {3, 3}, {.padding = "SAME"});
                  },
                  images, rows),
              ElementsAre("1 x permute of 512 B", "1 x permute of 512 B"));
  // The gradient by the kernels is a sum over the devices.
  auto by_kernels = [&](Array a, Array w) {
    return grad([&](Array v) { return sum(square(nn::conv(a, v))); })(w);
  };
  expect_equal(jit(by_kernels)(over_x(images, rows), kernels), by_kernels(images, kernels), 2e-4);
  EXPECT_THAT(exchanges(jit(by_kernels), over_x(images, rows), kernels),
              ::testing::Contains("1 x all-reduce of 576 B"));
}

TEST(MovedElements, TopK_MovesOnlyEachDevicesLargest) {
  const Array x = waves({64, 128});
  auto f = jit([](Array a) { return top_k(a, 3); });
  // One all-gather brings three numbers and three places of each row from four devices.
  EXPECT_THAT(exchanges(f, over_x(x, P(none, "x"))), ElementsAre("1 x all-gather of 6144 B"));
  for (const Array& each : {x, round(x * 2.f), where(x > 0.9f, NAN, x), astype(x * 9.f, int32)}) {
    for (int axis : {0, 1}) {
      for (int k : {0, 1, 3, 40, 64}) {
        auto g = [=](Array a) { return top_k(a, k, axis); };
        const auto got = jit(g)(over_x(each, P(none, "x"))), expected = g(each);
        expect_equal(where(isnan(got.first), 7, got.first), where(isnan(expected.first), 7, expected.first));
        expect_equal(got.second, expected.second);
      }
    }
  }
  auto gradient = [](Array a) { return grad([](Array v) { return sum(square(top_k(v, 3).first)); })(a); };
  expect_equal(jit(gradient)(over_x(x, P(none, "x"))), gradient(x));
}

TEST(MovedElements, ASortOfASplitDimension_MovesTheSplitAwayAndBack) {
  const Array x = waves({64, 256});
  auto f =
      jit([](Array a) { return sort(a, 1); }, {.out_shardings = {NamedSharding(line_mesh(), P(none, "x"))}});
  expect_equal(f(over_x(x, P(none, "x"))), sort(x, 1));
  EXPECT_THAT(exchanges(f, over_x(x, P(none, "x"))),
              ElementsAre("1 x all-to-all of 16384 B", "1 x all-to-all of 16384 B"));
}

/// Also where elements are equal or NaN, and where the mesh has 3 devices, which do not merge.
TEST(MovedElements, AOneDimensionalSort_ExchangesTheDevicesParts) {
  const Array x = waves({1 << 20});
  auto rising = jit([](Array a) { return sort(a); });
  EXPECT_THAT(
      exchanges(rising, over_x(x)),
      ElementsAre("1 x permute of 1048576 B", "1 x permute of 1048576 B", "1 x permute of 1048576 B"));
  EXPECT_EQ(rising(over_x(x)).sharding().spec(), P("x"));
  const Mesh three({devices().begin(), devices().begin() + 3}, {3}, {"x"});
  const Array n = waves({24000});
  for (const Array& each : {n, round(n * 3.f), where(n > 0.9f, NAN, n), astype(n * 9.f, int32)}) {
    for (const Mesh& mesh : {line_mesh(), three}) {
      for (bool descending : {false, true}) {
        SCOPED_TRACE(fmt::format("{} devices{}", mesh.size(), descending ? ", descending" : ""));
        auto both = [=](Array a) {
          const SortOptions options{.descending = descending};
          return std::tuple(sort(a, options), argsort(a, options), lexsort({a, round(a)}));
        };
        const auto [sorted, places, order] = jit(both)(device_put(each, NamedSharding(mesh, P("x"))));
        const auto [expected, expected_places, expected_order] = both(each);
        expect_equal(where(isnan(sorted), 7, sorted), where(isnan(expected), 7, expected));
        expect_equal(places, expected_places);
        expect_equal(order, expected_order);
      }
    }
  }
  auto gradient = [](Array a) { return grad([](Array v) { return sum(sort(v) * arange(0.f, 64.f)); })(a); };
  expect_equal(jit(gradient)(over_x(x[{slice(none, 64)}])), gradient(x[{slice(none, 64)}]));
}

TEST(MovedElements, ASwapOfMeshAxes_IsOnePermute) {
  const Mesh mesh = test::square_mesh();
  const Array x = waves({8, 8});
  const std::vector<std::pair<PartitionSpec, PartitionSpec>> pairs = {
      {P({"x", "y"}), P({"y", "x"})}, {P("x", "y"), P("y", "x")}, {P("x"), P("y")}};
  for (const auto& [from, to] : pairs) {
    auto f = jit([](Array a) { return a * 2.; }, {.out_shardings = {NamedSharding(mesh, to)}});
    const Array given = device_put(x, NamedSharding(mesh, from));
    expect_equal(f(given), x * 2.);
    const std::vector<std::string> all = exchanges(f, given);
    ASSERT_EQ(all.size(), 1u) << from.to_string();
    EXPECT_THAT(all[0], ::testing::HasSubstr("permute"));
  }
}

}  // namespace
}  // namespace lockstep
