#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/checkpoint/box.h"

/// Which process writes what. Every process works it out for itself from the shardings, and comes to the
/// same.
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

  /// Whether the leaf is on devices of one process only, and so taken to be the same on all.
  std::vector<bool> is_local;

  /// Of paths, types and shardings: the same on all processes that save the same tree.
  Fingerprint fingerprint = 0;
};

/// Each element is written once. What several processes have is cut between them, so that each writes about
/// as much.
WritePlan plan_writes(std::span<const Leaf> leaves, int process_index, int num_processes);

}  // namespace lockstep::checkpoint
