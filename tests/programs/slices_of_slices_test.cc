// SPDX-License-Identifier: Apache-2.0
// Tests that elements taken from a part of an array are that part's, even at places out of bounds: XLA makes
// one slice of two, and of a slice that a gather or a scatter reads.

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::expect_equal;

constexpr auto kClip = GatherScatterMode::kClip, kDrop = GatherScatterMode::kFillOrDrop;

using Part = std::pair<std::string, std::function<Array(Array, Array)>>;

/// Two rows of x, from one on; also past the end.
std::vector<Part> parts() {
  std::vector<Part> all;
  all.emplace_back("slice", [](Array x, Array n) { return dynamic_slice(x, {n, 0}, {2, 4}); });
  all.emplace_back("slice, transposed", [](Array x, Array n) {
    return transpose(dynamic_slice(transpose(x), {0, n}, {4, 2}));
  });
  all.emplace_back("slice of a slice", [](Array x, Array n) {
    return dynamic_slice(dynamic_slice(x, {n - 1, 0}, {3, 4}), {1, 0}, {2, 4});
  });
  all.emplace_back(
      "take", [](Array x, Array n) { return take(x, n + arange(2), TakeOptions{.axis = 0, .mode = kClip}); });
  return all;
}

/// Uses of two rows at place i of them, in or out of bounds.
std::vector<Part> uses() {
  std::vector<Part> all;
  all.emplace_back("slice", [](Array p, Array i) { return dynamic_slice(p, {i, 0}, {1, 4}); });
  all.emplace_back("update", [](Array p, Array i) { return dynamic_update_slice(p, ones({1, 4}), {i, 0}); });
  all.emplace_back("take, clip",
                   [](Array p, Array i) { return take(p, i, TakeOptions{.axis = 0, .mode = kClip}); });
  all.emplace_back("take, fill", [](Array p, Array i) {
    return take(p, i, TakeOptions{.axis = 0, .mode = kDrop, .fill_value = -1});
  });
  all.emplace_back("add, drop", [](Array p, Array i) { return p.at(i).add(100., {.mode = kDrop}); });
  all.emplace_back("set, drop", [](Array p, Array i) { return p.at(i).set(100., {.mode = kDrop}); });
  all.emplace_back("set, clip", [](Array p, Array i) { return p.at(i).set(100., {.mode = kClip}); });
  return all;
}

TEST(SlicesOfSlices, InAndOutOfBounds_EqualTwoSeparateSlices) {
  const Array x = reshape(arange(24.), {6, 4});
  for (const auto& [part_name, part] : parts()) {
    for (const auto& [use_name, use] : uses()) {
      auto both = jit([part = part, use = use](Array x, Array n, Array i) { return use(part(x, n), i); });
      for (int n : {0, 2, 5}) {
        // One operation after the other: each is compiled by itself.
        const Array rows = part(x, test::number(n));
        for (int i : {-3, -1, 0, 1, 2, 3}) {
          SCOPED_TRACE(part_name + " at " + std::to_string(n) + ", " + use_name + " at " + std::to_string(i));
          expect_equal(both(x, test::number(n), test::number(i)), use(rows, test::number(i)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
