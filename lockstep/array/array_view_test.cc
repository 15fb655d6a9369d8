// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/array_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>

#include "lockstep/array/device_put.h"
#include "lockstep/array/host_memory.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// These tests run in the process of array_test.cc, which has four CPU devices.

TEST(Span, OfAnArray_PointsToItsMemory) {
  const Array x = array(HostView(std::vector<float>{1, 2, 3}));
  EXPECT_THAT(x.span<float>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(static_cast<const void*>(x.span<float>().data()), x.addressable_shards()[0].data);
  const bool flags[] = {true, false};
  const Array bools = array(HostView(flags, {2}));
  EXPECT_THAT(bools.span<bool>(), ElementsAre(true, false));
  EXPECT_THAT(bools.span<std::uint8_t>(), ElementsAre(1, 0));
}

template <class A>
concept HasSpan = requires(A&& x) {
  std::forward<A>(x).template span<float>();
};

TEST(Span, OfATemporary_DoesNotCompile) {
  EXPECT_TRUE(HasSpan<const Array&>);
  EXPECT_FALSE(HasSpan<Array>);
}

TEST(Span, OfASplitArrayOrAnotherDType_IsRefused) {
  const std::vector<float> values = {1, 2, 3, 4};
  const Mesh mesh = make_mesh({{"x", 4}});
  const Array split = device_put(HostView(values), NamedSharding(mesh, P("x")));
  EXPECT_THAT(error_of<ShardingError>([&] { split.span<float>(); }),
              AllOf(HasSubstr("[span] no device of this process holds all elements of f32[4]"),
                    HasSubstr("addressable_shards()"), HasSubstr("array_view_test.cc")));
  const Array whole = device_put(HostView(values), NamedSharding(mesh, P()));
  EXPECT_THAT(whole.span<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(error_of<DTypeError>([&] { whole.span<double>(); }),
              HasSubstr("[span] the elements of f32[4] cannot be read as f64"));
  Array gone = whole;
  gone.delete_();
  EXPECT_THAT(error_of<Error>([&] { gone.span<float>(); }), HasSubstr("was deleted"));
}

TEST(View, OfAnArray_HasItsShapeStridesAndElements) {
  const std::vector<std::int32_t> values = {0, 1, 2, 10, 11, 12};
  const ArrayView<std::int32_t> view = array(HostView(values, {2, 3})).view<std::int32_t>();
  EXPECT_EQ(view.shape(), (Shape{2, 3}));
  EXPECT_THAT(view.strides(), ElementsAre(3, 1));
  EXPECT_EQ(view(1, 2), 12);
  EXPECT_THAT(view, ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_EQ(error_of<ShapeError>([&] { view(1); }),
            "[view] expected 2 indices for an array of shape [2,3], got 1");
  EXPECT_EQ(array(HostView(values.data() + 3, {})).view<std::int32_t>()(), 10);
}

TEST(View, OfADeletedArray_KeepsTheElements) {
  Array x = array(HostView(std::vector<float>(1000, 7)));
  const auto view = x.view<float>();
  x.delete_();
  const Array other = array(HostView(std::vector<float>(1000, 1)));
  for (const float value : view) ASSERT_EQ(value, 7);
}

template <class T>
Array single(T value) {
  return array(HostView(&value, {1}));
}

TEST(Item, ReadAsAWiderType_IsConverted) {
  EXPECT_EQ(single(0.1f).item<double>(), double{0.1f});
  EXPECT_EQ(single(0.1).item<float>(), 0.1f);
  EXPECT_EQ(single(std::int32_t{-7}).item<std::int64_t>(), -7);
  EXPECT_EQ(single(std::int64_t{300}).item<std::uint16_t>(), 300);
  EXPECT_EQ(single(std::uint64_t{1} << 63).item<double>(), 0x1p63);
  EXPECT_EQ(single(true).item<int>(), 1);
  EXPECT_EQ(single(true).item<float>(), 1);
  EXPECT_EQ(single(std::int8_t{-3}).item<std::complex<double>>(), std::complex<double>(-3));
  EXPECT_EQ(single(std::complex<double>(1, 2)).item<std::complex<float>>(), std::complex<float>(1, 2));
  HostMemory half = HostMemory::allocate(DType::kF16, {});
  *static_cast<std::uint16_t*>(const_cast<void*>(half.data())) = 0x3e00;
  EXPECT_EQ(array(half).item<float>(), 1.5f);
}

TEST(Item, ReadAsATypeThatCannotHoldIt_IsRefused) {
  EXPECT_THAT(error_of<DTypeError>([] { single(1.5f).item<int>(); }),
              AllOf(HasSubstr("[item] the element of f32[1] cannot be read as i32"),
                    HasSubstr("array_view_test.cc")));
  EXPECT_THAT(error_of<DTypeError>([] { single(std::complex<float>(1)).item<float>(); }),
              HasSubstr("read as f32"));
  EXPECT_THAT(error_of<DTypeError>([] { single(1).item<bool>(); }), HasSubstr("read as bool"));
  EXPECT_THAT(error_of<DTypeError>([] { single(300).item<std::int8_t>(); }),
              HasSubstr("[item] i8 cannot represent the element of i32[1]"));
  EXPECT_THAT(error_of<DTypeError>([] { single(-1).item<std::uint64_t>(); }),
              HasSubstr("u64 cannot represent"));
  EXPECT_THAT(error_of<ShapeError>([] { array(HostView(std::vector<float>(2))).item<float>(); }),
              HasSubstr("expected an array of one element, got f32[2]"));
}

}  // namespace
}  // namespace lockstep
