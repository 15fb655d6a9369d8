// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/collectives/plan.h"
#include "lockstep/collectives/sum_tree.h"

/// Collectives between hosts as data: what each participant sends, receives and sums in each round. The
/// participants are one member of each host, in the order of the hosts.
namespace lockstep::collectives {

/// Each area has one dtype (SumTypes). Sums in progress are not rounded to the dtype of the results.
enum class Area : std::uint8_t {
  kInput,
  kOutput,
  kScratch,   ///< inputs of others
  kPartial,   ///< sums in progress; where they have the results' dtype, this is the output
  kReceived,  ///< sums in progress that others sent; kScratch is the end of the same memory
};

/// A position in a participant's memory: an area, and an offset. Offsets and sizes are in bytes as if each
/// area had the dtype of the results.
struct Place {
  Area area;
  std::size_t at;
};

struct RoundMessage {
  int peer;
  Place place;
  std::size_t bytes;
};

struct Copy {
  Place from, to;
  std::size_t bytes;
};

/// to = ((sources[0] op sources[1]) op …); `to` may be one of the sources.
struct Sum {
  std::vector<Place> sources;
  Place to;
  std::size_t bytes;
  const SumTree* tree = nullptr;  ///< the order, if it is another
};

/// First the copies, one after the other; then all messages at the same time; when all are sent and received,
/// the sums. Messages from one participant to another are matched in the order in which they are listed here.
struct Round {
  std::vector<Copy> copies;
  std::vector<RoundMessage> sends, receives;
  std::vector<Sum> sums;

  void clear() { copies.clear(), sends.clear(), receives.clear(), sums.clear(); }
};

/// The actions of one participant. Its memory does not grow with the number of rounds.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual int rounds() const = 0;
  virtual void write(int round, Round& to) const = 0;  ///< `to` is empty
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual std::size_t partial_bytes() const { return 0; }
  virtual std::size_t received_bytes() const { return 0; }
};

/// n is the number of participants.
enum class Algorithm : std::uint8_t {
  kDirect,             ///< each sends everything to everyone: one round
  kPairwise,           ///< each sends each other its part, some at a time
  kRing,               ///< parts are passed around: n-1 rounds, the fewest bytes
  kRecursiveDoubling,  ///< exchange everything with partners at distances 1, 2, 4, …: log n rounds
  kHalvingDoubling,    ///< exchange halves, quarters, … and back: 2 log n rounds, the fewest bytes
  kBruck,              ///< send everything collected so far to distances 1, 2, 4, …: log n rounds
  kWideBruck,          ///< Bruck with digits of a larger base: fewer rounds and bytes, more partners
  kTree,               ///< a binomial tree: log n rounds
  kScatterBruck,       ///< parts are sent down a tree and then gathered: 2 log n rounds
};
inline constexpr Algorithm kAlgorithms[] = {
    Algorithm::kDirect,          Algorithm::kPairwise, Algorithm::kRing,      Algorithm::kRecursiveDoubling,
    Algorithm::kHalvingDoubling, Algorithm::kBruck,    Algorithm::kWideBruck, Algorithm::kTree,
    Algorithm::kScatterBruck};

std::string_view name_of(Algorithm algorithm);  ///< "recursive-doubling"

/// Whether the algorithm supports this kind of collective.
bool is_algorithm_of(Algorithm algorithm, Kind kind);

/// A collective from the view of rank `rank` of `size` participants. Inputs and outputs are those of
/// Collective, where a part of `count` elements has `bytes` in the dtype of the results.
struct Exchange {
  Kind kind;
  int rank, size;
  std::size_t bytes;
  int root = 0;

  /// Only for reductions by Algorithm::kPairwise. Each participant's input is that of each of its blocks: of
  /// a reduce-scatter, first the first part of each block, then the second ones, …
  const HostBlocks* blocks = nullptr;
};

/// Throws Error if is_algorithm_of is false. In an all-reduce, input and output may be the same memory; in
/// the others they must differ. All participants get the same bits.
std::unique_ptr<Schedule> make_schedule(Algorithm algorithm, const Exchange& exchange);

}  // namespace lockstep::collectives
