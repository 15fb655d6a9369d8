// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/base/amount.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

std::uint64_t natural(std::int64_t bytes) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
}

}  // namespace

std::string describe_memory(Device device) {
  const auto memory = device.memory_stats();
  if (!memory) return "";
  std::string text = amount_of_bytes(natural(memory->bytes_in_use));
  if (memory->bytes_limit) text += " of " + amount_of_bytes(natural(*memory->bytes_limit));
  if (memory->peak_bytes_in_use)
    text += fmt::format(", at most {} so far", amount_of_bytes(natural(*memory->peak_bytes_in_use)));
  return text;
}

DeviceMemory::DeviceMemory(std::vector<Device> devices)
    : devices_(std::move(devices)),
      counts_(std::ranges::any_of(devices_, [](Device device) { return device.memory_bytes() > 0; })) {}

void DeviceMemory::look_if_due() {
  constexpr std::int64_t kBetweenNs = 500'000'000;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t next = next_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_ns_.compare_exchange_strong(next, now + kBetweenNs, std::memory_order_relaxed))
    return;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (const auto memory = devices_[i].memory_stats())
      watch::set_device_memory(i, natural(memory->bytes_in_use), natural(memory->bytes_limit.value_or(0)));
  }
}

}  // namespace lockstep::runtime
