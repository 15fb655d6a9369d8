// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/dtype.h"
#include "lockstep/base/fingerprint.h"

namespace lockstep::collectives {

enum class Kind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kBroadcast,
  kBarrier
};
enum class ReduceOp : std::uint8_t { kSum, kProd, kMin, kMax };

std::string_view name_of(Kind kind);  ///< "all-reduce"

/// One collective of a compiled program, which all members of a group execute together. Data is dense and
/// row-major. With n the size of the group and r a member's rank:
///   all-reduce      input `count` elements, output their reduction over all members, element by element. The
///                   order is the same for all members, so that all get the same bits: rank order within a
///                   host, and for small inputs; otherwise the order of the algorithm between hosts
///                   (rounds/). Sums and products of floats of 8 and 16 bits are computed in f32 and rounded
///                   once
///   all-gather      input `count` elements, output n*count: rank 0's, then rank 1's, …
///   reduce-scatter  input n*count elements; r gets the reduction of all members' r-th part of `count`
///   all-to-all      input n*count elements; r gets all members' r-th part of `count`, in rank order
///   permute         input `count` elements; a member that is no target gets zeros
///   broadcast       all members get the `count` elements of rank `root`
///   barrier         no data
/// So `count` is the number of elements of one part. If the collective dimension of a tensor is not the first
/// one, the program transposes the tensor before.
struct Collective {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  std::int64_t count = 0;

  /// Whether the result of a reduction is not rounded: it has the dtype partial_type(op, dtype).
  bool partial = false;

  /// The groups, as positions in the program's mesh; each position is in exactly one group.
  std::vector<std::vector<int>> groups;

  int root = 0;                            ///< for broadcast: a rank
  std::vector<std::pair<int, int>> pairs;  ///< for permute: (source rank, target rank)

  std::string description;  ///< for messages: "psum f32[512,10] over data"
  CallSite site;            ///< the user's line that caused it
};

/// All collectives of a compiled program, in the order in which every device runs them.
struct ProgramCollectives {
  Fingerprint program = 0;
  std::string name;          ///< for messages: "step"
  std::vector<int> devices;  ///< the global device id of each mesh position
  std::vector<Collective> collectives;
};

}  // namespace lockstep::collectives
