// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/checkpoint/box.h"

/// Which process writes which part. Every process computes the same plan from the shardings.
namespace lockstep::checkpoint {

/// An array of a tree, by its path.
struct Leaf {
  std::string path;
  Array array;
};

/// A part of an array that one process writes.
struct Piece {
  std::size_t leaf = 0;
  Box box;
};

struct WritePlan {
  std::vector<std::vector<Piece>> of_process;

  /// Whether the leaf is on devices of one process only; such leaves are assumed to be the same on all
  /// processes.
  std::vector<bool> is_local;

  /// Of paths, types and shardings: equal on all processes that save the same tree.
  Fingerprint fingerprint = 0;
};

/// Each element is written once. Parts that several processes have are divided between them, so that each
/// writes about the same amount.
WritePlan plan_writes(std::span<const Leaf> leaves, int process_index, int num_processes);

}  // namespace lockstep::checkpoint
