// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "lockstep/array/device_put.h"
#include "lockstep/array/print.h"
#include "lockstep/base/error.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/test_four_devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using testing::error_of;

Mesh line_mesh() { return make_mesh({{"x", 4}}); }
Mesh square_mesh() { return make_mesh({{"x", 2}, {"y", 2}}); }

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

/// 0, 1, 2, … spread as the spec says.
Array over(const Mesh& mesh, const P& spec, const Shape& shape) {
  return make_array_from_process_local_data(NamedSharding(mesh, spec), counted(num_elements(shape)), shape);
}

TEST(Numbers, AreScalarsOfWeakDtype) {
  EXPECT_EQ(Array(2).item<std::int32_t>(), 2);
  EXPECT_EQ(Array(2.5).item<float>(), 2.5f);
  EXPECT_EQ(Array(true).item<std::uint8_t>(), 1);
  EXPECT_TRUE(Array(2).aval().weak_type);
  EXPECT_EQ(Array(2).ndim(), 0);
}

// Arrays are immutable: y[0] = x would change a copy.
static_assert(std::is_copy_assignable_v<Array> && std::is_nothrow_move_assignable_v<Array>);
static_assert(!std::is_assignable_v<Array, Array> && !std::is_assignable_v<Array, const Array&>);
static_assert(!std::is_assignable_v<Array, double>);

enum Plain { kPlain };
enum class Scoped { kScoped };

template <class... Ts>
constexpr bool all_convert = (std::is_convertible_v<Ts, Array> && ...);
template <class... Ts>
constexpr bool none_makes_an_array = !(std::is_constructible_v<Array, Ts> || ...);

static_assert(
    all_convert<bool, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                long long, unsigned long long, std::size_t, std::ptrdiff_t, float, double, long double>);
static_assert(none_makes_an_array<const char*, char*, int*, const void*, std::nullptr_t, decltype("w"),
                                  Array*, void (*)(), std::string, char, wchar_t, char8_t, char16_t, char32_t,
                                  Plain, Scoped, std::vector<int>, std::initializer_list<int>>);
static_assert(!std::is_convertible_v<std::shared_ptr<internal::ArrayData>, Array>);

TEST(Numbers, EveryCxxNumberType_HasJaxsDtype) {
  auto dtype = [](const Array& x) { return x.dtype(); };
  const std::vector<int> v(3);
  Array n = v.size();
  EXPECT_EQ(n.item<std::int32_t>(), 3);
  EXPECT_TRUE(n.aval().weak_type);
  EXPECT_EQ(dtype(std::int8_t{-1}), int32);
  EXPECT_EQ(dtype(7ull), int32);
  EXPECT_EQ(dtype(7l), int32);
  EXPECT_EQ(dtype(true), bool_);
  EXPECT_EQ(dtype(1.0l), float32);
  EXPECT_EQ(Array(std::int64_t{-2147483648}).item<std::int32_t>(), -2147483648);
  EXPECT_EQ(Array(2147483647u).item<std::int32_t>(), 2147483647);
}

TEST(Numbers, TooLargeForI32_AreErrorsThatNameTheNumber) {
  EXPECT_THAT(error_of<DTypeError>([] { Array n = std::int64_t{1} << 40; }),
              AllOf(HasSubstr("[Array]"), HasSubstr("1099511627776"), HasSubstr("i32"), HasSubstr("int64"),
                    HasSubstr("array_test.cc:")));
  EXPECT_THAT(error_of<DTypeError>([] { Array n = ~std::size_t{0}; }), HasSubstr("18446744073709551615"));
  EXPECT_THAT(error_of<DTypeError>([] { Array n = 2147483648u; }), HasSubstr("2147483648"));
}

TEST(ToHost, EverySharding_GivesTheWholeArray) {
  for (const P& spec : {P(), P("x"), P(nullptr, "y"), P("x", "y"), P("y", "x"), P({"x", "y"}, none)}) {
    EXPECT_EQ(over(square_mesh(), spec, {4, 8}).to_host<float>(), counted(32)) << spec.to_string();
  }
}

TEST(ToHost, ReadingAnotherDtype_IsAnErrorThatSaysWhatToDo) {
  EXPECT_THAT(error_of<DTypeError>([] { Array(2).to_host<float>(); }),
              AllOf(HasSubstr("i32[]"), HasSubstr("cannot be read as f32"), HasSubstr("astype")));
  EXPECT_THAT(error_of<ShapeError>([] { over(line_mesh(), P(), {2}).item<float>(); }), HasSubstr("f32[2]"));
}

TEST(Deleted, DeletedOrEmptyArrays_ThrowWhenRead) {
  Array x = over(line_mesh(), P("x"), {8}), same = x;
  EXPECT_FALSE(x.is_deleted());
  x.delete_();
  EXPECT_TRUE(same.is_deleted());
  EXPECT_THAT(error_of<Error>([&] { same.to_host<float>(); }),
              AllOf(HasSubstr("f32[8]"), HasSubstr("deleted")));
  EXPECT_THAT(x.to_string(), HasSubstr("deleted"));
  EXPECT_THAT(error_of<Error>([] { Array().to_host<float>(); }), HasSubstr("without a value"));
}

TEST(Shards, EachOne_HasItsDeviceIndexShapeAndData) {
  Array x = over(square_mesh(), P("y", "x"), {4, 6});
  auto shards = x.addressable_shards();
  ASSERT_EQ(shards.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(shards[i].device, devices()[i]);
    EXPECT_EQ(shards[i].shape, (Shape{2, 3}));
    EXPECT_EQ(shards[i].dtype, DType::kF32);
    const std::int64_t row = i % 2 * 2, column = i / 2 * 3;
    EXPECT_THAT(shards[i].index, ElementsAre(IndexRange{row, row + 2}, IndexRange{column, column + 3}));
    const auto* data = static_cast<const float*>(shards[i].data);
    EXPECT_THAT(std::vector(data, data + 6),
                ElementsAre(6 * row + column, 6 * row + column + 1, 6 * row + column + 2,
                            6 * row + column + 6, 6 * row + column + 7, 6 * row + column + 8));
  }
  EXPECT_TRUE(x.is_fully_addressable());
  EXPECT_FALSE(x.is_fully_replicated());
  EXPECT_TRUE(over(square_mesh(), P(), {4}).is_fully_replicated());
}

TEST(DevicePut, MovesBetweenAnyShardings) {
  const std::vector<Sharding> places = {
      NamedSharding(line_mesh(), P("x")), NamedSharding(line_mesh(), P(nullptr, "x")),
      NamedSharding(square_mesh(), P("x", "y")), NamedSharding(square_mesh(), P()),
      SingleDeviceSharding(devices()[3])};
  for (const Sharding& from : places) {
    Array x = make_array_from_process_local_data(from, counted(32), {4, 8});
    for (const Sharding& to : places) {
      Array moved = device_put(x, to);
      EXPECT_TRUE(moved.sharding() == to) << moved.to_string();
      EXPECT_EQ(moved.to_host<float>(), counted(32)) << from.to_string() << " to " << to.to_string();
    }
  }
}

TEST(DevicePut, ASizeThatTheMeshDoesNotDivide_IsAnErrorWithTheNearestSizes) {
  Array x = over(line_mesh(), P(), {6, 4});
  EXPECT_THAT(error_of<ShardingError>([&] { device_put(x, NamedSharding(line_mesh(), P("x"))); }),
              AllOf(HasSubstr("[device_put] dimension 0 of f32[6,4]"), HasSubstr("axis 'x' of 4 devices"),
                    HasSubstr("remainder 2"), HasSubstr("4 and 8")));
}

TEST(LocalData, ThatDoesNotFit_IsAnErrorThatNamesTheDimension) {
  EXPECT_THAT(error_of<ShardingError>([] {
                over(line_mesh(), P(nullptr, "x"), {2, 7});
              }),
              AllOf(HasSubstr("[make_array_from_process_local_data] dimension 1"), HasSubstr("'x'"),
                    HasSubstr("4 devices"), HasSubstr("remainder 3"), HasSubstr("4 and 8")));
  EXPECT_THAT(error_of<ShardingError>([] { over(line_mesh(), P(nullptr, "x"), {8}); }),
              AllOf(HasSubstr("2 entries"), HasSubstr("1 dimensions")));
  EXPECT_THAT(error_of<ShapeError>([] {
                make_array_from_process_local_data(NamedSharding(line_mesh(), P()), counted(5), {2, 3});
              }),
              AllOf(HasSubstr("has 5 elements"), HasSubstr("needs 6")));
}

TEST(ArrayStr, AnArrayOverDevices_EndsWithItsSharding) {
  EXPECT_EQ(array_str(over(square_mesh(), P("x", "y"), {2, 4})),
            "[[0. 1. 2. 3.]\n"
            " [4. 5. 6. 7.]]\n"
            "NamedSharding(Mesh(x=2, y=2), P('x', 'y'))");
}

TEST(ToString, ShowsShapeDtypeAndSharding) {
  EXPECT_EQ(over(line_mesh(), P("x"), {4}).to_string(), "Array(f32[4], NamedSharding(Mesh(x=4), P('x')))");
}

}  // namespace
}  // namespace lockstep
