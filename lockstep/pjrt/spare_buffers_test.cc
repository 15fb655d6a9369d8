// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/spare_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/pjrt/test_client.h"

namespace lockstep::pjrt {
namespace {

using ::testing::ElementsAre;

using Dims = std::vector<std::int64_t>;

class SpareBuffersTest : public ::testing::Test {
 protected:
  const Device& device() const { return *client_->addressable_devices()[0]; }

  /// A buffer that comes back.
  Buffer made(DType dtype, const Dims& dims) {
    std::size_t bytes = size_of(dtype);
    for (const std::int64_t dim : dims) bytes *= static_cast<std::size_t>(dim);
    const std::vector<std::byte> zeros(bytes);
    return spares_.own(client_->buffer_from_host(zeros.data(), dtype, dims, device()), dtype, dims, device());
  }
  bool keeps(DType dtype, const Dims& dims) {
    const Buffer spare = spares_.take(dtype, dims, device());
    return static_cast<bool>(spare);
  }

  std::shared_ptr<Client> client_ = make_client();
  SpareBuffers spares_{client_->plugin()->api()};
};

TEST_F(SpareBuffersTest, AReleasedBuffer_IsReusedForItsShapeAndDType) {
  Buffer first = made(float32, {2, 3});
  EXPECT_FALSE(keeps(float32, {2, 3}));
  void* const place = first.unsafe_pointer();
  first.reset();
  EXPECT_FALSE(keeps(float32, {3, 2}));
  EXPECT_FALSE(keeps(float32, {6}));
  EXPECT_FALSE(keeps(int32, {2, 3}));
  Buffer second = spares_.take(float32, Dims{2, 3}, device());
  ASSERT_TRUE(second);
  EXPECT_EQ(second.unsafe_pointer(), place);
  EXPECT_TRUE(second.ready());
  EXPECT_EQ(second.dims(), (Dims{2, 3}));
  EXPECT_FALSE(keeps(float32, {2, 3}));
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  std::memcpy(second.unsafe_pointer(), values.data(), sizeof values);
  EXPECT_THAT(to_host<float>(second), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(SpareBuffersTest, ABufferOfTwoHandles_IsKeptWhenTheLastIsReleased) {
  Buffer one = made(float32, {4});
  Buffer moved = std::move(one);
  Buffer other = moved.share();
  moved.reset();
  EXPECT_FALSE(keeps(float32, {4}));
  other.reset();
  EXPECT_TRUE(keeps(float32, {4}));
}

TEST_F(SpareBuffersTest, ABufferThePluginMayStillUse_IsNotKept) {
  Buffer lent = made(float32, {4});
  EXPECT_NE(lent.get(), nullptr);
  lent.reset();
  EXPECT_FALSE(keeps(float32, {4}));

  Buffer shared = made(float32, {4});
  Buffer other = shared.share();
  EXPECT_NE(shared.get(), nullptr);
  shared.reset();
  other.reset();
  EXPECT_FALSE(keeps(float32, {4}));

  Buffer deleted = made(float32, {4});
  deleted.delete_memory();
  EXPECT_TRUE(deleted.is_deleted());
  deleted.reset();
  EXPECT_FALSE(keeps(float32, {4}));
}

TEST_F(SpareBuffersTest, BeyondTheirNumber_TheOldestIsDestroyed) {
  std::vector<Buffer> all;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(SpareBuffers::kMostBuffers); ++i)
    all.push_back(made(float32, {i + 1}));
  for (Buffer& each : all) each.reset();
  EXPECT_FALSE(keeps(float32, {1}));
  for (std::int64_t i = 1; i <= static_cast<std::int64_t>(SpareBuffers::kMostBuffers); ++i)
    EXPECT_TRUE(keeps(float32, {i + 1})) << i;
}

TEST_F(SpareBuffersTest, BeyondTheirBytes_TheOldestAreDestroyed_AndALargeOneIsNotKept) {
  constexpr std::int64_t kLargest = SpareBuffers::kLargest, kCount = SpareBuffers::kMostBytes / kLargest;
  std::vector<Buffer> all;
  for (std::int64_t i = 0; i <= kCount; ++i) all.push_back(made(uint8, {kLargest - i}));
  for (Buffer& each : all) each.reset();
  EXPECT_FALSE(keeps(uint8, {kLargest}));
  for (std::int64_t i = 1; i <= kCount; ++i) EXPECT_TRUE(keeps(uint8, {kLargest - i})) << i;
  made(uint8, {kLargest + 1}).reset();
  EXPECT_FALSE(keeps(uint8, {kLargest + 1}));
}

TEST_F(SpareBuffersTest, TwoThreads_AreNeverGivenTheSameBuffer) {
  const auto use = [&](float own) {
    for (int i = 0; i < 2000; ++i) {
      Buffer buffer = spares_.take(float32, Dims{16}, device());
      if (!buffer) buffer = made(float32, {16});
      auto* const values = static_cast<float*>(buffer.unsafe_pointer());
      std::fill_n(values, 16, own);
      if (i % 7 == 0) std::this_thread::yield();
      EXPECT_EQ(std::count(values, values + 16, own), 16);
      if (i % 5 == 0) {
        EXPECT_NE(buffer.get(), nullptr);
      }
    }
  };
  std::thread one([&] { use(1); }), two([&] { use(2); });
  one.join();
  two.join();
}

TEST(UninitializedBuffer, AReleasedSmallBuffer_IsReused) {
  const auto client = make_client();
  const Device& device = *client->addressable_devices()[0];
  Buffer held = client->uninitialized_buffer(float32, Dims{8}, device);
  void* const place = client->uninitialized_buffer(float32, Dims{8}, device).unsafe_pointer();
  EXPECT_NE(place, held.unsafe_pointer());
  Buffer again = client->uninitialized_buffer(float32, Dims{8}, device);
  EXPECT_EQ(again.unsafe_pointer(), place);
}

}  // namespace
}  // namespace lockstep::pjrt
