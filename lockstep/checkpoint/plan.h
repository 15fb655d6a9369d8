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

/// For each array the process whose devices have all of it; kSpread if several processes have parts of it.
inline constexpr int kSpread = -1;
std::vector<int> owners_of(std::span<const Leaf> leaves);

/// Which processes have the elements of an array of a tree. Below, `owners` are what `owners_of` returns.
enum class Place {
  kSpread,  ///< over devices of several processes
  kEach,    ///< each process has one of its own, which must be the same on all
  kOne,     ///< on devices of one process only, such as a stage of a pipeline
};

/// A process's description of its tree before a save, and the place of each leaf according to all
/// descriptions. `kEach` and `kOne` look the same to the process that has the array. Throws CheckpointError,
/// naming `what`, if the processes' trees differ.
std::string describe_tree(std::span<const Leaf> leaves, const std::vector<int>& owners);
std::vector<Place> places_of(std::span<const Leaf> leaves, const std::vector<std::string>& described,
                             const std::string& what);

/// The bytes that each process writes.
using Loads = std::vector<std::uint64_t>;

/// The pieces of the leaves that are spread, by process. Every process computes the same. Each element is
/// written once. Parts that several processes have are divided between them, so that each writes about the
/// same amount.
std::vector<std::vector<Piece>> plan_spread(std::span<const Leaf> leaves, const std::vector<int>& owners,
                                            Loads& loads);

/// The pieces of the other leaves, when their places are known. Does not ask for shardings: the arrays may
/// have been donated meanwhile.
std::vector<std::vector<Piece>> plan_others(std::span<const Leaf> leaves, const std::vector<int>& owners,
                                            const std::vector<Place>& places, Loads& loads);

}  // namespace lockstep::checkpoint
