// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/durations.h"
#include "lockstep/base/function.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep::checkpoint {

/// Options for restoring a tree.
struct RestoreOptions {
  /// Paths that are not in the checkpoint keep the value of `like`, and paths of the checkpoint that are not
  /// in the tree are ignored. Without this option both are errors.
  bool partial = false;

  /// The path in the checkpoint for this path of the tree; the same, if not given.
  std::function<std::string(const std::string& path)> rename;

  /// The sharding for the array at this path of the tree; that of `like`, if nullopt or not given.
  std::function<std::optional<Sharding>(const std::string& path)> sharding;

  /// Arrays may use mapped files in place, if these are on a local disk, and the part begins at a multiple of
  /// 64 bytes, as in files that Lockstep wrote: nothing is copied, and unused data is not kept in memory. The
  /// checkpoint may be removed meanwhile, but must not be changed.
  bool map = true;

  /// The limit for the whole restore.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// Statistics of a restore.
struct RestoreReport {
  std::uint64_t bytes_needed = 0;  ///< of the parts that this process's devices hold, each part once
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_mapped = 0;  ///< of those, how many are not copied
};

}  // namespace lockstep::checkpoint
