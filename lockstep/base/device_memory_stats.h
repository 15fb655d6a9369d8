// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

/// The use of a device's memory as its plugin counts it, under JAX's names. What the plugin does not count is
/// empty.
struct DeviceMemoryStats {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> peak_bytes_in_use;         ///< the most since the process's start
  std::optional<std::int64_t> bytes_limit;               ///< what the process may use
  std::optional<std::int64_t> bytes_reserved;            ///< kept by the plugin for itself
  std::optional<std::int64_t> largest_alloc_size;        ///< the largest block since the process's start
  std::optional<std::int64_t> largest_free_block_bytes;  ///< the largest block that is free now
  std::optional<std::int64_t> num_allocs;                ///< blocks since the process's start
};

}  // namespace lockstep
