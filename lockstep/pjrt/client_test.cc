// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/client.h"

#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "lockstep/pjrt/test_client.h"

namespace lockstep::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Client, ListsTheRequestedNumberOfDevices) {
  auto client = make_client(3);
  EXPECT_EQ(client->platform_name(), "cpu");
  EXPECT_EQ(client->process_index(), 0);
  ASSERT_EQ(client->addressable_devices().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Device& device = *client->addressable_devices()[i];
    EXPECT_EQ(device.local_ordinal(), i);
    EXPECT_EQ(device.id(), i);
    EXPECT_EQ(device.kind(), "cpu");
    EXPECT_THAT(device.to_string(), HasSubstr(std::to_string(i)));
    EXPECT_FALSE(device.debug_string().empty());
  }
}

TEST(Client, ATextThatDoesNotParse_ThrowsTheCompilersMessage) {
  auto client = make_client();
  EXPECT_THAT(
      error_of([&] { client->compile("module { func.func public @main() { return %x : tensor<f32> } }"); }),
      AllOf(HasSubstr("[pjrt] compiling a program: "), HasSubstr("undeclared SSA value")));
}

TEST(Client, AnUnknownXlaOption_IsNamedInTheError) {
  auto client = make_client();
  const char* text =
      "module { func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }";
  EXPECT_THAT(error_of([&] {
                client->compile(text, {.xla_options = {{"no_such_option", true}}});
              }),
              HasSubstr("no_such_option"));
  EXPECT_NO_THROW(client->compile(text, {.xla_options = {{"xla_cpu_multi_thread_eigen", false}}}));
}

/// As many bytes as the dtype has, of a pattern that no conversion would keep.
class RoundTrip : public ::testing::TestWithParam<int> {};

TEST_P(RoundTrip, ToTheDeviceAndBack_KeepsEveryByte) {
  const auto dtype = static_cast<DType>(GetParam());
  auto client = make_client();
  const std::vector<std::int64_t> dims = {2, 3};
  std::vector<std::uint8_t> sent(6 * size_of(dtype)), got(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    sent[i] = dtype == bool_ ? i % 2 : static_cast<std::uint8_t>(37 * i + 1);
  Buffer buffer = client->buffer_from_host(sent.data(), dtype, dims, *client->addressable_devices()[0]);
  EXPECT_EQ(buffer.dtype(), dtype);
  EXPECT_EQ(buffer.dims(), dims);
  EXPECT_EQ(buffer.size_bytes(), sent.size());
  buffer.to_host(got.data(), got.size());
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(buffer.ready());
}

INSTANTIATE_TEST_SUITE_P(DTypes, RoundTrip, ::testing::Range(0, static_cast<int>(DType::kC64) + 1),
                         [](const auto& test) { return std::string(name(static_cast<DType>(test.param))); });

TEST(Buffer, EmptyArraysAndScalars_AreReadBackUnchanged) {
  auto client = make_client();
  Buffer empty = to_device<float>(*client, {}, {0, 4});
  EXPECT_EQ(empty.size_bytes(), 0u);
  empty.to_host(nullptr, 0);
  Buffer scalar = to_device<std::int32_t>(*client, {7}, {});
  EXPECT_THAT(to_host<std::int32_t>(scalar), ElementsAre(7));
}

TEST(Buffer, CanBeReadByManyThreadsAtOnce) {
  auto client = make_client();
  const std::vector<float> sent(4, 3.f);
  for (int buffers = 0; buffers < 20; ++buffers) {
    const Buffer buffer = to_device<float>(*client, sent, {4});
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int read = 0; read < 2000; ++read) EXPECT_EQ(to_host<float>(buffer), sent);
      });
    }
  }
}

TEST(Buffer, ADestinationOfAnotherSize_IsRefused) {
  auto client = make_client();
  Buffer buffer = to_device<float>(*client, {1, 2}, {2});
  float one;
  EXPECT_THAT(error_of([&] { buffer.to_host(&one, sizeof one); }),
              AllOf(HasSubstr("8 bytes"), HasSubstr("4")));
}

TEST(Buffer, ReadingDeletedMemory_IsAnError) {
  auto client = make_client();
  Buffer buffer = to_device<float>(*client, {1, 2}, {2});
  EXPECT_FALSE(buffer.is_deleted());
  buffer.delete_memory();
  EXPECT_TRUE(buffer.is_deleted());
  EXPECT_THAT(error_of([&] { to_host<float>(buffer); }), HasSubstr("[pjrt]"));
}

TEST(Buffer, AMovedFromBuffer_IsEmpty) {
  auto client = make_client();
  Buffer first = to_device<float>(*client, {1}, {1});
  Buffer second = std::move(first);
  EXPECT_FALSE(first);
  first = to_device<float>(*client, {2}, {1});
  first = std::move(second);
  EXPECT_THAT(to_host<float>(first), ElementsAre(1));
}

TEST(BufferFromHost, ZeroCopy_LiesInTheHostMemoryAndHoldsItsOwner) {
  auto client = make_client();
  auto* memory = static_cast<float*>(std::aligned_alloc(64, 4096));
  for (int i = 0; i < 1024; ++i) memory[i] = static_cast<float>(i);
  std::promise<void> freed;
  std::future<void> is_freed = freed.get_future();
  std::shared_ptr<void> owner(memory, [&](void* p) {
    std::free(p);
    freed.set_value();
  });
  std::weak_ptr<void> watch = owner;
  const std::int64_t dims[] = {1024};
  Buffer buffer = client->buffer_from_host(memory, float32, dims, *client->addressable_devices()[0],
                                           HostUse::kZeroCopy, std::move(owner));
  EXPECT_EQ(buffer.unsafe_pointer(), memory);
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(to_host<float>(buffer)[1023], 1023);
  buffer.reset();
  ASSERT_EQ(is_freed.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(BufferFromHost, ACopy_DoesNotReadTheMemoryLater) {
  auto client = make_client();
  std::vector<float> values(1 << 16, 1.0f);
  const std::int64_t dims[] = {1 << 16};
  Buffer buffer = client->buffer_from_host(values.data(), float32, dims, *client->addressable_devices()[0]);
  std::fill(values.begin(), values.end(), 2.0f);
  EXPECT_EQ(to_host<float>(buffer), std::vector<float>(1 << 16, 1.0f));
}

}  // namespace
}  // namespace lockstep::pjrt
