// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/host_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <numeric>
#include <span>

#include "lockstep/array/host_memory.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/random.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// These tests run in the process of array_test.cc, which has four CPU devices.

/// The elements of the view in row-major order, one by one.
template <class T>
std::vector<T> one_by_one(const HostView& view) {
  std::vector<T> values;
  std::vector<std::int64_t> index(view.shape().size());
  for (std::int64_t i = 0; i < num_elements(view.shape()); ++i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides()[d];
    values.push_back(static_cast<const T*>(view.data())[offset]);
    for (std::size_t d = index.size(); d-- > 0 && ++index[d] == view.shape()[d];) index[d] = 0;
  }
  return values;
}

/// Whole squares of the copy, and the rest of them at both ends.
template <class T>
void copies_columns() {
  std::vector<T> values(3 * 130 * 140);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i % 251));
  for (const HostView& view : {HostView::column_major(values.data(), {130, 140}),
                               HostView(values.data(), {3, 130, 140}, {130 * 140, 1, 130}),
                               HostView(values.data(), {130, 3, 140}, {1, 130 * 140, 130}),
                               HostView(values.data(), {65, 140}, {2, 130})})
    EXPECT_EQ(array(view).to_host<T>(), one_by_one<T>(view)) << to_string(view.shape());
}

template <class T>
void copies_random_strides(testing::Random& random) {
  for (int round = 0; round < 60; ++round) {
    // A dense box with its dimensions in any order, of which the view takes every step-th element, also
    // backwards.
    const auto rank = static_cast<std::size_t>(random.below(5));
    Shape shape(rank);
    std::vector<std::int64_t> strides(rank), order(rank);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t d = rank; d > 1; --d)
      std::swap(order[d - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(d)))]);
    std::int64_t stride = 1, first = 0;
    for (const std::int64_t d : order) {
      const auto at = static_cast<std::size_t>(d);
      shape[at] = rank <= 2 ? random.below(150) : random.below(9);
      const std::int64_t step = random.below(4) == 0 ? 2 : 1;
      strides[at] = random.below(6) == 0 ? 0 : stride * step;
      if (random.below(5) == 0) {
        first += std::max<std::int64_t>(shape[at] - 1, 0) * strides[at];
        strides[at] = -strides[at];
      }
      stride *= std::max<std::int64_t>(shape[at], 1) * step;
    }
    std::vector<T> values(static_cast<std::size_t>(stride));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i % 251));
    const HostView view(values.data() + first, shape, strides);
    EXPECT_EQ(array(view).to_host<T>(), one_by_one<T>(view)) << to_string(shape);
  }
}

TEST(HostView, WithAnyStrides_IsCopiedInRowMajorOrder) {
  testing::Random random;
  copies_columns<std::uint8_t>();
  copies_random_strides<std::uint8_t>(random);
  copies_columns<std::int16_t>();
  copies_random_strides<std::int16_t>(random);
  copies_columns<float>();
  copies_random_strides<float>(random);
  copies_columns<double>();
  copies_random_strides<double>(random);
  copies_columns<std::complex<double>>();
  copies_random_strides<std::complex<double>>(random);
}

TEST(HostView, WithColumnMajorElements_IsTransposed) {
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  EXPECT_THAT(array(HostView::column_major(columns.data(), {2, 3})).to_host<float>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(HostView, OfVectorsSpansArraysAndPointers_BecomesAnArray) {
  std::vector<double> vector = {1, 2};
  std::array<std::int32_t, 4> numbers = {1, 2, 3, 4};
  EXPECT_THAT(array(HostView(vector)).to_host<double>(), ElementsAre(1, 2));
  EXPECT_THAT(array(HostView(std::span<double>(vector))).to_host<double>(), ElementsAre(1, 2));
  EXPECT_EQ(array(HostView(numbers, {2, 2})).shape(), (Shape{2, 2}));
  EXPECT_THAT(array(HostView(numbers.data(), {3})).to_host<std::int32_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(array(HostView(numbers.data(), {})).item<std::int32_t>(), 1);
}

TEST(HostView, SplitByRows_GivesEachDeviceItsRows) {
  const std::vector<float> columns = {0, 10, 20, 30, 1, 11, 21, 31};
  const NamedSharding rows(make_mesh({{"x", 4}}), P("x"));
  const Array x = device_put(HostView::column_major(columns.data(), {4, 2}), rows);
  EXPECT_THAT(x.to_host<float>(), ElementsAre(0, 1, 10, 11, 20, 21, 30, 31));
  EXPECT_EQ(*static_cast<const float*>(x.addressable_shards()[2].data), 20);
  const std::array<float, 4> values = {1, 2, 3, 4};
  EXPECT_THAT(device_put(HostView(values, {4, 1}), rows).to_host<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(HostView, WithAShapeThatDoesNotFit_IsRefused) {
  const std::vector<float> values(6);
  EXPECT_THAT(
      error_of<ShapeError>([&] { HostView(values, {4}); }),
      AllOf(HasSubstr("[HostView] 6 elements do not fill shape [4]"), HasSubstr("host_view_test.cc")));
  EXPECT_THAT(error_of<ShapeError>([&] { HostView(values.data(), {2, -3}); }), HasSubstr("at least 0"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                HostView(values.data(), {2, 3}, {1});
              }),
              HasSubstr("a stride for each dimension of shape [2,3], got 1"));
}

TEST(HostCopy, MustNotCopy_ThrowsTheReasonForTheCopy) {
  alignas(64) static float memory[65];
  const std::span<const float> all(memory, 64);
  const auto owner = std::shared_ptr<const void>(memory, [](const void*) {});
  const Mesh mesh = make_mesh({{"x", 4}});
  const HostMemory good(all, {8, 8}, owner, HostCopy::kMustNotCopy);
  const Array x = array(good);
  EXPECT_EQ(x.addressable_shards()[0].data, memory);
  EXPECT_TRUE(good.is_used_by(x));
  EXPECT_TRUE(good.is_used_by(device_put(good, NamedSharding(mesh, P("x")))));
  EXPECT_FALSE(good.is_used_by(array(HostView(all, {8, 8}))));

  EXPECT_THAT(error_of<Error>([&] { device_put(good, NamedSharding(mesh, P(nullptr, "x"))); }),
              AllOf(HasSubstr("of shape [8,2], is not contiguous in elements of shape [8,8]"),
                    HasSubstr("host_view_test.cc")));
  const HostMemory narrow(all.first(32), {8, 4}, owner, HostCopy::kMustNotCopy);
  EXPECT_THAT(error_of<Error>([&] { device_put(narrow, NamedSharding(mesh, P("x"))); }),
              HasSubstr("begin 32 bytes behind a multiple of 64"));
  const HostMemory behind(std::span<const float>(memory + 1, 64), {64}, owner, HostCopy::kMustNotCopy);
  EXPECT_THAT(error_of<Error>([&] { array(behind); }),
              AllOf(HasSubstr("[array] the elements would be copied"), HasSubstr("begin 4 bytes behind")));
  EXPECT_THAT(error_of<Error>([&] {
                HostMemory(HostView::column_major(memory, {8, 8}), owner, HostCopy::kMustNotCopy);
              }),
              HasSubstr("strides [1, 8] are not those of row-major elements of shape [8,8]"));
}

TEST(HostCopy, IfNeeded_CopiesAndReportsIt) {
  alignas(64) static float memory[64];
  std::iota(memory, memory + 64, 0.f);
  std::shared_ptr<const void> owner(memory, [](const void*) {});
  const std::weak_ptr<const void> watch = owner;
  const HostMemory copy(HostView::column_major(memory, {8, 8}), std::move(owner));
  EXPECT_TRUE(watch.expired()) << "the elements were copied, so that nothing needs the memory";
  EXPECT_NE(copy.data(), memory);
  const Array x = array(copy);
  EXPECT_TRUE(copy.is_used_by(x));
  EXPECT_EQ(x.to_host<float>()[1], 8);
}

}  // namespace
}  // namespace lockstep
