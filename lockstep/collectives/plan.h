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

/// One collective of a compiled program: what all members of a group do together. Data is dense and
/// row-major. With n the size of the group and r a member's rank in it:
///   all-reduce      each gives `count` elements, each gets their reduction, element by element, in an order
///                   that is the same for all members, so that all get the same bits: in rank order within a
///                   host, and of small ones; else by the way between the hosts (rounds/)
///   all-gather      each gives `count` elements, each gets n*count: rank 0's, then rank 1's, …
///   reduce-scatter  each gives n*count elements; r gets the reduction of everyone's r-th part of `count`
///   all-to-all      each gives n*count elements; r gets everyone's r-th part of `count`, in rank order
///   permute         each gives `count` elements; who is no target gets zeros
///   broadcast       each gets the `count` elements of rank `root`
///   barrier         no data
/// `count` is thus the number of elements of one part. A tensor whose collective dimension is not the leading
/// one is transposed by the program, not here.
struct Collective {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  std::int64_t count = 0;

  /// The groups, as positions in the program's mesh; a position stands in exactly one group.
  std::vector<std::vector<int>> groups;

  int root = 0;                            ///< broadcast: a rank
  std::vector<std::pair<int, int>> pairs;  ///< permute: (source rank, target rank)

  std::string description;  ///< for messages: "psum f32[512,10] over data"
  CallSite site;            ///< the user's line that caused it
};

/// All collectives of a compiled program, in the order in which every device runs them.
struct ProgramCollectives {
  Fingerprint program = 0;
  std::string name;          ///< for messages: "step"
  std::vector<int> devices;  ///< global device id of each mesh position
  std::vector<Collective> collectives;
};

}  // namespace lockstep::collectives
