#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/sharding/sharding.h"

namespace lockstep::checkpoint {

/// How a tree is restored.
struct RestoreOptions {
  /// Places of the tree that the checkpoint has not keep what `like` has there, and what else is in the
  /// checkpoint is left out. Otherwise both are errors.
  bool partial = false;

  /// The path in the checkpoint of what is to stand at this path of the tree. The same, if not given.
  std::function<std::string(const std::string& path)> rename;

  /// The sharding for the array at this path of the tree; nullopt, or none given: that of `like`.
  std::function<std::optional<Sharding>(const std::string& path)> sharding;

  /// Arrays may lie in the mapped files, where these are on a disk of this machine: nothing is copied, and
  /// what is not used is not kept in memory. The checkpoint may be removed meanwhile, but not written to.
  bool map = true;

  /// For all processes together.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// What a restore has read.
struct RestoreReport {
  std::uint64_t bytes_needed = 0;  ///< of the parts that this process's devices hold, each part once
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_mapped = 0;  ///< of those, how many are not copied
};

}  // namespace lockstep::checkpoint
