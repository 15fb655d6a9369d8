// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lockstep/array/device_put.h"
#include "lockstep/array/dlpack_layout.h"
#include "lockstep/array/make_array.h"
#include "lockstep/array/test_dlpack.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using dlpack::Foreign;
using dlpack::Unversioned;
using dlpack::Versioned;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// These tests run in the process of array_test.cc, which has four CPU devices.

TEST(FromDlpack, AlignedRowMajorTensor_IsUsedInPlaceUntilTheArrayIsDestroyed) {
  Foreign foreign({4, 16});
  Array x = from_dlpack(foreign.get(), HostCopy::kMustNotCopy);
  EXPECT_EQ(x.shape(), (Shape{4, 16}));
  EXPECT_EQ(x.addressable_shards()[0].data, foreign.memory);
  EXPECT_EQ(x.to_host<float>()[63], 63);
  EXPECT_EQ(foreign.deleted, 0);
  x = Array();
  EXPECT_EQ(foreign.times_deleted(), 1);
}

TEST(FromDlpack, StridedOrUnalignedTensor_IsCopiedOnce) {
  Foreign columns({2, 3}, {1, 2});
  EXPECT_THAT(from_dlpack(columns.get()).to_host<float>(), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_EQ(columns.times_deleted(), 1);
  Foreign offset({3});
  offset.tensor.tensor.byte_offset = 8;
  EXPECT_THAT(from_dlpack(offset.get()).to_host<float>(), ElementsAre(2, 3, 4));
  EXPECT_EQ(offset.times_deleted(), 1);
  Foreign empty({0, 3});
  empty.tensor.tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(empty.get(), HostCopy::kMustNotCopy).shape(), (Shape{0, 3}));
  EXPECT_EQ(empty.times_deleted(), 1);
}

TEST(FromDlpack, TensorSplitOverAMesh_IsUsedInPlaceByEachDevice) {
  Foreign foreign({4, 16});
  Array x = device_put(dlpack_memory(foreign.get(), HostCopy::kMustNotCopy),
                       NamedSharding(make_mesh({{"x", 4}}), P("x")));
  EXPECT_EQ(x.addressable_shards()[3].data, foreign.memory + 48);
  x = Array();
  EXPECT_EQ(foreign.times_deleted(), 1);
}

TEST(FromDlpack, AfterAnError_TheTensorIsDeletedOnce) {
  const auto refuses = [](auto change) {
    Foreign foreign({4, 4});
    change(foreign);
    const std::string message = error_of<Error>([&] { from_dlpack(foreign.get(), HostCopy::kMustNotCopy); });
    EXPECT_EQ(foreign.times_deleted(), 1) << message;
    return message;
  };
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.major = 2; }), HasSubstr("DLPack 1, got version 2.0"));
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.tensor.device_type = dlpack::kCuda; }),
              AllOf(HasSubstr("in the memory of CUDA GPU 0, which process 0 of 1 does not use"),
                    HasSubstr("dlpack_test.cc")));
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.tensor.type.bits = 24; }),
              HasSubstr("type code 2 with 24 bits"));
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.tensor.type.lanes = 4; }), HasSubstr("4 lanes"));
  EXPECT_THAT(refuses([](Foreign& f) { f.shape[0] = -1; }), HasSubstr("at least 0"));
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.tensor.ndim = -1; }),
              HasSubstr("expected 0 or more dimensions, got -1"));
  EXPECT_THAT(refuses([](Foreign& f) { f.tensor.tensor.byte_offset = 4; }), HasSubstr("4 bytes behind"));
  EXPECT_THAT(error_of<Error>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }),
              HasSubstr("null pointer"));
}

TEST(ToDlpack, Tensor_PointsToTheArraysMemoryAndIsReadOnly) {
  const Array x = array(HostView(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}));
  const auto given = to_dlpack(x);
  const auto& seen = *reinterpret_cast<const Versioned*>(given.get());
  EXPECT_EQ(seen.major, 1u);
  EXPECT_EQ(seen.flags, dlpack::kReadOnly);
  EXPECT_EQ(seen.tensor.data, x.addressable_shards()[0].data);
  EXPECT_THAT(std::vector(seen.tensor.shape, seen.tensor.shape + 2), ElementsAre(2, 3));
  EXPECT_THAT(std::vector(seen.tensor.strides, seen.tensor.strides + 2), ElementsAre(3, 1));
  EXPECT_EQ(seen.tensor.type.bits, 32);
}

TEST(ToDlpack, TensorOfADeletedArray_KeepsItsMemory) {
  Array x = array(HostView(std::vector<float>(1000, 7)));
  const auto given = to_unversioned_dlpack(x);
  x.delete_();
  const auto& tensor = reinterpret_cast<const Unversioned*>(given.get())->tensor;
  // Other arrays of the same size would be in the memory if it were free.
  const Array other = array(HostView(std::vector<float>(1000, 1)));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(static_cast<const float*>(tensor.data)[i], 7);
}

TEST(ToDlpack, EachDType_IsUnchangedByARoundTrip) {
  for (std::size_t i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    HostMemory memory = HostMemory::allocate(dtype, {3});
    std::memset(const_cast<void*>(memory.data()), 1, 3 * size_of(dtype));
    const Array x = array(memory);
    const Array y = from_dlpack(to_dlpack(x).release(), HostCopy::kMustNotCopy);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.addressable_shards()[0].data, x.addressable_shards()[0].data) << name(dtype);
  }
}

TEST(ToDlpack, SplitAndDescribedArrays_AreRefused) {
  const Mesh mesh = make_mesh({{"x", 4}});
  const std::vector<float> four = {1, 2, 3, 4};
  const Array split = device_put(HostView(four), NamedSharding(mesh, P("x")));
  EXPECT_THAT(error_of<ShardingError>([&] { to_dlpack(split); }),
              AllOf(HasSubstr("no device of this process holds all elements of f32[4]"),
                    HasSubstr("dlpack_test.cc")));
  EXPECT_THAT(error_of<Error>([&] { to_dlpack(shape_of(split)); }), HasSubstr("needs the elements"));
  const Array whole = device_put(HostView(four), NamedSharding(mesh, P()));
  EXPECT_NE(to_dlpack(whole), nullptr);
}

}  // namespace
}  // namespace lockstep
