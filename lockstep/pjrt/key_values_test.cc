// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <map>

#include "lockstep/pjrt/test_client.h"

namespace lockstep::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The plugin that calls the callbacks as CUDA's does.
std::shared_ptr<Plugin> gpu_plugin() {
  setenv("GPU_ON_CPU_BEHIND", find_plugin().c_str(), 1);
  return Plugin::load(GPU_ON_CPU_PLUGIN);
}

ClientOptions node(std::int64_t id, std::int64_t count) {
  return {{"platform_name", std::string("cuda")}, {"node_id", id}, {"num_nodes", count}};
}

/// A dictionary in which node 1 has told of itself already.
struct Dictionary {
  std::mutex mutex;
  std::map<std::string, std::string> values = {{"node/1", std::string("has\0", 4) + "7"}};

  KeyValueCallbacks callbacks() {
    return {.get = [this](const std::string& key, std::chrono::milliseconds timeout) -> std::string {
              std::lock_guard lock(mutex);
              if (auto it = values.find(key); it != values.end()) return it->second;
              throw TimeoutError("no " + key + " within " + std::to_string(timeout.count()) + " ms");
            },
            .try_get = [this](const std::string& key) -> std::optional<std::string> {
              std::lock_guard lock(mutex);
              auto it = values.find(key);
              return it == values.end() ? std::nullopt : std::optional(it->second);
            },
            .put =
                [this](const std::string& key, const std::string& value) {
                  std::lock_guard lock(mutex);
                  values[key] = value;
                }};
  }
};

TEST(KeyValues, Callbacks_AreCalledWhenTheClientIsMadeAndLater) {
  Dictionary dictionary;
  auto client = Client::create(gpu_plugin(), node(0, 2), dictionary.callbacks());
  EXPECT_EQ(dictionary.values.at("node/0"), std::string("has\0", 4) + "2");
  EXPECT_EQ(client->platform_name(), "cuda");
  client->compile("func.func public @main() { return }");
  EXPECT_EQ(dictionary.values.count("compiled/0/1"), 1u);
}

TEST(KeyValues, AnErrorInACallback_IsThrownWhenTheClientIsMade) {
  Dictionary dictionary;
  try {
    Client::create(gpu_plugin(), node(0, 3), dictionary.callbacks());
    FAIL() << "nothing was thrown";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no node/2 within 60000 ms")));
  }
}

TEST(KeyValues, WithoutCallbacks_ThePluginReportsNone) {
  EXPECT_THAT(error_of([] { Client::create(gpu_plugin(), node(0, 2)); }),
              HasSubstr("no key-value callbacks"));
}

TEST(HostPointer, ForMemoryTheHostCannotRead_IsNull_AndToHostCopies) {
  auto client = Client::create(gpu_plugin(), {{"visible_devices", std::vector<std::int64_t>{0}}});
  Buffer x = to_device<float>(*client, {1, 2, 3}, {3});
  EXPECT_EQ(x.host_pointer(), nullptr);
  EXPECT_EQ(to_host<float>(x), (std::vector<float>{1, 2, 3}));
}

TEST(HostPointer, OnCpu_PointsToTheElements) {
  auto client = make_client();
  Buffer x = to_device<float>(*client, {1, 2, 3}, {3});
  EXPECT_EQ(x.host_pointer(), x.unsafe_pointer());
  EXPECT_EQ(static_cast<const float*>(x.host_pointer())[2], 3);
}

TEST(Share, TheBuffer_IsFreedWithItsLastHandle) {
  auto client = make_client();
  Buffer first = to_device<float>(*client, {1, 2, 3}, {3});
  EXPECT_FALSE(first.is_shared());
  Buffer second = first.share(), third = second.share();
  const void* place = first.host_pointer();
  EXPECT_TRUE(first.is_shared());
  first.reset();
  Buffer moved = std::move(third);
  EXPECT_TRUE(moved.is_shared());
  second = Buffer();
  EXPECT_FALSE(moved.is_shared());
  EXPECT_EQ(moved.host_pointer(), place);
  EXPECT_EQ(to_host<float>(moved), (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace lockstep::pjrt
