// SPDX-License-Identifier: Apache-2.0
// Copies through pinned memory, with the plugin that looks like CUDA's. It notes what goes directly between a
// device and mapped memory.
#include "lockstep/pjrt/pinned_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "lockstep/pjrt/test_client.h"

namespace lockstep::pjrt {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMib = std::size_t{1} << 20;

class PinnedMemoryCopies : public ::testing::Test {
 protected:
  PinnedMemoryCopies() {
    setenv("GPU_ON_CPU_BEHIND", find_plugin().c_str(), /*overwrite=*/1);
    plugin_ = Plugin::load(GPU_ON_CPU_PLUGIN);
    open(kMib * 64);
  }
  ~PinnedMemoryCopies() override {
    for (const char* variable : {"GPU_ON_CPU_CANNOT_MAP", "GPU_ON_CPU_RESULTS"}) unsetenv(variable);
  }

  void open(std::size_t limit) {
    client_ = Client::create(plugin_, {{"platform_name", std::string("cuda")}});
    client_->pin_host_memory(limit);
    now();
  }

  struct Direct {
    long long to_device = 0, to_host = 0, mapped = 0;
  };
  /// What was copied directly since the last call, and what is mapped.
  Direct now() {
    Direct all;
    reinterpret_cast<void (*)(long long*, long long*, long long*)>(
        dlsym(plugin_->library(), "gpu_on_cpu_direct"))(&all.to_device, &all.to_host, &all.mapped);
    const Direct before = std::exchange(last_, all);
    return {all.to_device - before.to_device, all.to_host - before.to_host, all.mapped};
  }

  Buffer put(const std::vector<std::uint8_t>& bytes) const {
    const std::int64_t dims[] = {static_cast<std::int64_t>(bytes.size())};
    return client_->buffer_from_host(bytes.data(), DType::kU8, dims, *client_->addressable_devices().front());
  }
  std::vector<std::uint8_t> read(const Buffer& buffer) const {
    std::vector<std::uint8_t> bytes(buffer.size_bytes());
    client_->to_host(buffer, bytes.data(), bytes.size());
    return bytes;
  }

  std::shared_ptr<Plugin> plugin_;
  std::shared_ptr<Client> client_;
  Direct last_;
};

std::vector<std::uint8_t> some_bytes(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::uint32_t state = 1;
  for (std::uint8_t& byte : bytes)
    byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST_F(PinnedMemoryCopies, OfLargeArrays_GoDirectlyToAndFromTheDevice) {
  for (const std::size_t size : {kMib, kMib + 1, 4 * kMib, 4 * kMib + 3, 37 * kMib - 5}) {
    const std::vector<std::uint8_t> bytes = some_bytes(size);
    const Buffer buffer = put(bytes);
    EXPECT_EQ(read(buffer), bytes) << size;
    const Direct direct = now();
    EXPECT_EQ(direct.to_device, size);
    EXPECT_EQ(direct.to_host, size);
  }
}

TEST_F(PinnedMemoryCopies, OfSmallArrays_AreMadeByThePlugin) {
  const std::vector<std::uint8_t> bytes = some_bytes(kMib - 1);
  EXPECT_EQ(read(put(bytes)), bytes);
  const Direct direct = now();
  EXPECT_EQ(direct.to_device, 0);
  EXPECT_EQ(direct.mapped, 0);
}

TEST_F(PinnedMemoryCopies, OneAfterTheOther_UseTheSameMemory) {
  const std::vector<std::uint8_t> bytes = some_bytes(8 * kMib);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(put(bytes)), bytes);
  const long long mapped = now().mapped;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(read(put(bytes)), bytes);
  EXPECT_EQ(now().mapped, mapped);
}

TEST_F(PinnedMemoryCopies, BeyondTheLimit_AreMadeByThePlugin) {
  open(16 * kMib);
  const std::vector<std::uint8_t> large = some_bytes(17 * kMib), fits = some_bytes(12 * kMib);
  EXPECT_EQ(read(put(large)), large);
  EXPECT_EQ(now().to_device, 0);
  for (const auto* bytes : {&fits, &large, &fits}) {
    EXPECT_EQ(read(put(*bytes)), *bytes);
    EXPECT_LE(now().mapped, 16 * kMib);
  }
}

TEST_F(PinnedMemoryCopies, WithoutMappedMemory_AreMadeByThePlugin) {
  setenv("GPU_ON_CPU_CANNOT_MAP", "1", /*overwrite=*/1);
  open(64 * kMib);
  const std::vector<std::uint8_t> bytes = some_bytes(5 * kMib);
  const Buffer buffer = put(bytes);
  EXPECT_EQ(read(buffer), bytes);
  const CopyToHost copy = client_->begin_copy_to_host(buffer);
  while (!copy.await_for(std::chrono::seconds(1))) continue;
  EXPECT_EQ(std::memcmp(copy.data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(now().mapped, 0);
}

TEST_F(PinnedMemoryCopies, ToHostAsync_OutliveTheBufferAndTheClient) {
  const std::vector<std::uint8_t> bytes = some_bytes(6 * kMib);
  Buffer buffer = put(bytes);
  std::optional<CopyToHost> copy = client_->begin_copy_to_host(buffer);
  buffer.reset();
  while (!copy->await_for(std::chrono::seconds(1))) continue;
  EXPECT_EQ(now().to_host, bytes.size());
  client_.reset();
  EXPECT_EQ(now().mapped, 0);
  EXPECT_EQ(std::memcmp(copy->data(), bytes.data(), bytes.size()), 0);
}

TEST_F(PinnedMemoryCopies, InSeveralThreads_HaveTheElements) {
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::vector<std::uint8_t> bytes = some_bytes((5 + 3 * i) * kMib + i);
      for (int times = 0; times < 3; ++times) EXPECT_EQ(read(put(bytes)), bytes);
    });
  }
}

TEST_F(PinnedMemoryCopies, OfFailedResults_ThrowAndFreeTheMemory) {
  const std::vector<std::uint8_t> bytes = some_bytes(9 * kMib);
  const Buffer buffer = put(bytes);
  EXPECT_EQ(read(buffer), bytes);
  const long long mapped = now().mapped;
  setenv("GPU_ON_CPU_RESULTS", "fail", /*overwrite=*/1);
  EXPECT_THAT(error_of([&] { read(buffer); }), HasSubstr("the device gave up"));
  unsetenv("GPU_ON_CPU_RESULTS");
  EXPECT_EQ(read(buffer), bytes);
  EXPECT_EQ(now().mapped, mapped);
}

}  // namespace
}  // namespace lockstep::pjrt
