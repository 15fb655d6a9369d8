// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/device.h"

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {

std::optional<DeviceMemoryStats> Device::memory_stats() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = device_;
  if (PJRT_Error* error = api_->PJRT_Device_MemoryStats(&args)) {
    ignore(api_, error);
    return std::nullopt;
  }
  const auto counted = [](bool is_set, std::int64_t value) {
    return is_set ? std::optional(value) : std::nullopt;
  };
  return DeviceMemoryStats{
      .bytes_in_use = args.bytes_in_use,
      .peak_bytes_in_use = counted(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
      .bytes_limit = counted(args.bytes_limit_is_set, args.bytes_limit),
      .bytes_reserved = counted(args.bytes_reserved_is_set, args.bytes_reserved),
      .largest_alloc_size = counted(args.largest_alloc_size_is_set, args.largest_alloc_size),
      .largest_free_block_bytes =
          counted(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes),
      .num_allocs = counted(args.num_allocs_is_set, args.num_allocs)};
}

}  // namespace lockstep::pjrt
