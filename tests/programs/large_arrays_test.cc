// SPDX-License-Identifier: Apache-2.0
// Places that an i32 cannot hold. What needs the memory runs where it is.

#include <fstream>
#include <string>

#include "lockstep/array/trace.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/ops/ops.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t kMost = (std::int64_t{1} << 31) + 1000;

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::int64_t kilobytes; file >> name >> kilobytes; file.ignore(64, '\n')) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

std::int64_t number(const Array& x) { return astype(x, int64).item<std::int64_t>(); }
std::vector<std::int8_t> numbers(const Array& x) { return x.to_host<std::int8_t>(); }

TEST(LargeArrays, AreReadAndWrittenBeyond2To31) {
  constexpr std::int64_t kNeeded = std::int64_t{7} << 30;
  if (available_bytes() < kNeeded)
    GTEST_SKIP() << "three arrays of 2 GiB need 7 GiB of memory, and " << (available_bytes() >> 20)
                 << " MiB are free";
  const std::int64_t at = kMost - 7;
  // Places in a program, those that arrays hold, and one given to a program that is kept for any.
  auto written = jit([at](const std::vector<Array>& places) {
    return zeros({kMost}, int8).at(at).set(7).at(places[0]).add(5);
  });
  Array x = written(std::vector<Array>{array({at + 2, std::int64_t{0}})});
  EXPECT_EQ(x.size(), kMost);
  x = x.at(-6).set(6);
  EXPECT_EQ(numbers(x[slice(at - 1, at + 4)]), (std::vector<std::int8_t>{0, 7, 6, 5, 0}));
  EXPECT_EQ(numbers(dynamic_slice(x, {at}, {2})), (std::vector<std::int8_t>{7, 6}));
  EXPECT_EQ(numbers(dynamic_slice(x, {array({at})[0]}, {2})), (std::vector<std::int8_t>{7, 6}));
  EXPECT_EQ(numbers(take(x, array({at, std::int64_t{1} << 40, std::int64_t{0}, at - kMost}))),
            (std::vector<std::int8_t>{7, -128, 5, 7}));
  EXPECT_EQ(numbers(x[array({-7, 0, 1})]), (std::vector<std::int8_t>{7, 5, 0}));
  EXPECT_EQ(number(x[at]), 7);
  EXPECT_EQ(number(sum(x)), 7 + 6 + 5 + 5);
  EXPECT_EQ(jit([at](const Array& x) { return x[at + 1]; })(x).item<std::int8_t>(), 6);
}

class Traced : public ::testing::Test {
 protected:
  Trace trace{"large"};
  Array x = trace.input({DType::kI8, {kMost}, false, {}});
};

TEST_F(Traced, IndicesInLargeDimensions_AreI64) {
  EXPECT_EQ(argsort(x).dtype(), int64);
  EXPECT_EQ(lexsort({x}).dtype(), int64);
  EXPECT_EQ(top_k(x, 3).second.dtype(), int64);
  EXPECT_EQ(searchsorted(x, 3).dtype(), int64);
  EXPECT_EQ(nonzero(x, 3)[0].dtype(), int64);
  EXPECT_EQ(unique_all(x, 3).indices.dtype(), int64);
  EXPECT_EQ(argmin(x).dtype(), int64);
  EXPECT_EQ(bincount(astype(x, int32), 3).dtype(), int64);
  EXPECT_EQ(argmin(x[slice(0, 1000)]).dtype(), int32);
  EXPECT_EQ(repeat(x, array({1})[0], {.total_repeat_length = kMost}).shape(), Shape{kMost});
  EXPECT_EQ(tri(2, kMost, 0, int8).shape(), (Shape{2, kMost}));
  EXPECT_EQ(diagonal(reshape(x, {1, kMost}), kMost - 1).shape(), Shape{1});
}

TEST_F(Traced, ANumberThatADTypeCannotHold_IsAnError) {
  EXPECT_THAT(error_of<DTypeError>([&] { nonzero(x[slice(0, 9)], 2, std::int64_t{1} << 40); }),
              HasSubstr("1099511627776"));
  EXPECT_THAT(
      error_of<DTypeError>([&] { ir::lax::full(x, ir::Scalar::of(std::int64_t{1} << 31), DType::kI32, {}); }),
      HasSubstr("[full] expected a number that i32 holds, got 2147483648"));
  EXPECT_THAT(error_of<DTypeError>([&] { ir::lax::argmax(x, 0, DType::kI32); }),
              HasSubstr("more elements than i32"));
}

TEST(LargeNumbers, ArangeBeyondInt32_IsOfInt64) {
  const std::int64_t big = std::int64_t{1} << 31, huge = std::int64_t{1} << 60;
  EXPECT_EQ(arange(big - 1, big + 2).to_host<std::int64_t>(),
            (std::vector<std::int64_t>{big - 1, big, big + 1}));
  EXPECT_EQ(arange(huge, huge + 3).to_host<std::int64_t>(),
            (std::vector<std::int64_t>{huge, huge + 1, huge + 2}));
  EXPECT_EQ(arange(-big, big, big).to_host<std::int64_t>(), (std::vector<std::int64_t>{-big, 0}));
  EXPECT_EQ(arange(5, -6, -5).to_host<std::int32_t>(), (std::vector<std::int32_t>{5, 0, -5}));
  EXPECT_EQ(arange(big - 3, big).dtype(), int32);
  EXPECT_EQ(arange(-2, 2, 1, uint8).to_host<std::uint8_t>(), (std::vector<std::uint8_t>{254, 255, 0, 1}));
}

TEST(LargeNumbers, LargeDiagonalsAndClassCounts_AreRight) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(number(sum(tril(ones({2, 2}), huge))), 4);
  EXPECT_EQ(number(sum(tril(ones({2, 2}), -huge))), 0);
  EXPECT_EQ(number(sum(tri(2, 2, (std::int64_t{1} << 31) - 1))), 4);
  EXPECT_EQ(number(sum(one_hot(astype(array({0, 100, -1}), int8), 300))), 2);
}

TEST(NegativeStarts, OfDynamicSlices_CountFromTheEnd) {
  const Array x = arange(6);
  const std::vector<std::int32_t> last = {4, 5}, written = {0, 1, 2, 3, 9, 9};
  EXPECT_EQ(dynamic_slice(x, {-2}, {2}).to_host<std::int32_t>(), last);
  EXPECT_EQ(dynamic_slice(x, {array({-2})[0]}, {2}).to_host<std::int32_t>(), last);
  EXPECT_EQ(dynamic_slice(x, {astype(array({-2})[0], int8)}, {2}).to_host<std::int32_t>(), last);
  EXPECT_EQ(dynamic_update_slice(x, array({9, 9}), {-2}).to_host<std::int32_t>(), written);
  EXPECT_EQ(dynamic_slice(reshape(x, {2, 3}), {array({std::int64_t{-1}})[0], array({1})[0]}, {1, 2})
                .to_host<std::int32_t>(),
            last);
}

}  // namespace
}  // namespace lockstep
