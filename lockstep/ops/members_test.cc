// SPDX-License-Identifier: Apache-2.0
// Array's members, and what makes an array of elements.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "lockstep/array/host_memory.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

Array numbers() { return array({{3.f, 1.f, 2.f}, {0.f, 5.f, 4.f}}); }

void expect_same(const Array& x, const Array& y) {
  EXPECT_EQ(x.shape(), y.shape());
  ASSERT_EQ(x.dtype(), y.dtype());
  std::vector<char> of_x(static_cast<std::size_t>(x.nbytes())), of_y(of_x);
  x.copy_to_host(of_x.data(), x.dtype());
  y.copy_to_host(of_y.data(), y.dtype());
  EXPECT_EQ(of_x, of_y);
}

TEST(Members, GiveWhatTheFunctionsOfTheSameNameGive) {
  const Array x = numbers();
  expect_same(x.astype(int32), astype(x, int32));
  expect_same(x.reshape({3, -1}), reshape(x, {3, -1}));
  expect_same(x.ravel(), ravel(x));
  expect_same(x.flatten(), ravel(x));
  expect_same(x.T(), transpose(x));
  expect_same(x.transpose({1, 0}), transpose(x));
  expect_same(x.reshape({1, 6, 1}).squeeze(), ravel(x));
  expect_same(x.reshape({1, 6, 1}).squeeze(0), reshape(x, {6, 1}));
  const ReduceOptions kept{.axis = 1, .keepdims = true};
  expect_same(x.sum(), sum(x));
  expect_same(x.sum(0), sum(x, 0));
  expect_same(x.sum({.axis = 1, .keepdims = true}), sum(x, kept));
  expect_same(x.prod(), prod(x));
  expect_same(x.prod(-1), prod(x, -1));
  expect_same(x.prod(kept), prod(x, kept));
  expect_same(x.mean(), mean(x));
  expect_same(x.mean(0), mean(x, 0));
  expect_same(x.mean(kept), mean(x, kept));
  expect_same(x.max(), max(x));
  expect_same(x.max(1), max(x, 1));
  expect_same(x.max(kept), max(x, kept));
  expect_same(x.min(), min(x));
  expect_same(x.min(1), min(x, 1));
  expect_same(x.min(kept), min(x, kept));
  expect_same(x.any(), any(x));
  expect_same(x.any(0), any(x, 0));
  expect_same(x.any(kept), any(x, kept));
  expect_same(x.all(), all(x));
  expect_same(x.all(0), all(x, 0));
  expect_same(x.all(kept), all(x, kept));
  expect_same(x.argmax(), argmax(x));
  expect_same(x.argmax(1), argmax(x, 1));
  expect_same(x.argmin(), argmin(x));
  expect_same(x.argmin(0), argmin(x, 0));
  expect_same(x.dot(x.T()), dot(x, transpose(x)));
  EXPECT_EQ(x.itemsize(), 4);
  EXPECT_EQ(x.nbytes(), 24);
}

TEST(Members, ErrorsNameTheUsersLine) {
  EXPECT_THAT(error_of<ShapeError>([] { numbers().sum(2); }), HasSubstr("members_test.cc"));
  EXPECT_THAT(error_of<ShapeError>([] { numbers().reshape({4}); }), HasSubstr("members_test.cc"));
  EXPECT_THAT(error_of<ShapeError>([] { numbers().dot(numbers()); }), HasSubstr("members_test.cc"));
}

TEST(IndexUpdate, SubtractDividePowerAndApply_ChangeThePart) {
  const Array x = array({1.f, 2.f, 4.f});
  EXPECT_THAT(x.at(1).subtract(5.f).to_host<float>(), ElementsAre(1, -3, 4));
  EXPECT_THAT(x.at({slice(1, none)}).divide(2.f).to_host<float>(), ElementsAre(1, 1, 2));
  EXPECT_THAT(x.at(2).power(2.f).to_host<float>(), ElementsAre(1, 2, 16));
  EXPECT_THAT(x.at({slice(0, 2)}).apply([](const Array& part) { return part * 10.f; }).to_host<float>(),
              ElementsAre(10, 20, 4));
  const Array twice = array({0, 0});
  EXPECT_THAT(x.at(twice).subtract(1.f).to_host<float>(), ElementsAre(-1, 2, 4));
  EXPECT_THAT(x.at(twice).divide(2.f).to_host<float>(), ElementsAre(0.25f, 2, 4));
  EXPECT_THAT(astype(x, uint8).at(0).subtract(array(std::vector<std::uint8_t>{1})[0]).to_host<std::uint8_t>(),
              ElementsAre(0, 2, 4));
  EXPECT_EQ(astype(x, float64).at(0).subtract(0.1).to_host<double>()[0], 1 - 0.1);
  EXPECT_THAT(astype(x, int32).at(1).divide(4).to_host<float>(), ElementsAre(1, 0.5f, 4));
  EXPECT_THAT(error_of<Error>([&] { x.at(0).apply([](const Array&) {
                                      return array({1.f, 2.f});
                                    }); }),
              HasSubstr("members_test.cc"));
}

TEST(MakingArrays, FromSpansArraysAndPointers_HaveTheirElements) {
  std::array<float, 4> values = {1, 2, 3, 4};
  EXPECT_THAT(array(values).to_host<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(array(values, {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(array(std::span(values)).shape(), (Shape{4}));
  EXPECT_EQ(array(std::span<float>(values), {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(array(std::span<const float>(values), {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_THAT(array(values.data(), {3}).to_host<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(array(HostView(values.data(), {2, 2}, {1, 2})).to_host<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(array(HostMemory(std::vector<float>{1, 2}, {2})).to_host<float>(), ElementsAre(1, 2));
  const Sharding device = SingleDeviceSharding(local_devices().back());
  EXPECT_THAT(device_put(std::vector<float>{1, 2}, device).to_host<float>(), ElementsAre(1, 2));
  EXPECT_THAT(device_put(values, device).to_host<float>(), ElementsAre(1, 2, 3, 4));
}

#if __cpp_multidimensional_subscript >= 202110L
TEST(Indexing, WithCommas_GivesWhatBracesGive) {
  const Array x = numbers();
  EXPECT_EQ((x[1, 2].item<float>()), 4);
  expect_same((x[slice(), 0]), x[{slice(), 0}]);
}
#endif

}  // namespace
}  // namespace lockstep
