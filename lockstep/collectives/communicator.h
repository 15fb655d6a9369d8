#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/plan.h"

namespace lockstep::collectives {

/// One collective of one program, as a member of a group calls it again and again. Must outlive its calls.
struct Call {
  Collective collective;        ///< `groups` is not looked at.
  std::string text;             ///< For messages: "psum f32[4] over i at a.cc:10 (program f, call 3)".
  std::uint64_t signature = 0;  ///< Digest of all that must be the same for all members.
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;

  /// The operation over several hosts that this is a step of (Wait::operation); 0: none.
  std::uint64_t step_of = 0;
};

/// The call of `collective`, the `index`-th of the program, in a group of `size` members. Throws DTypeError
/// where the reduction does not exist for the dtype, and Error where a rank, a pair or the count is out of
/// range.
Call make_call(const Collective& collective, int size, Fingerprint program = 0,
               const std::string& program_name = {}, std::int64_t index = 0);

/// What the messages of a communicator say of a member.
struct Member {
  int device = 0;  ///< Global device id.
  int process = 0;
};

/// A clique: an ordered list of devices, the rank of a device being its position. Each member that is local
/// is driven by one thread at a time; all members make the same calls in the same order. A device is in one
/// collective at a time, over all its communicators.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int size() const = 0;
  virtual const std::vector<Member>& members() const = 0;
  virtual int rank_of(int device) const = 0;  ///< -1 where the device is no member.

  /// Does the call as member `rank`, and blocks until this member's result stands in `out`. `in` holds
  /// `call.input_bytes` and `out` `call.output_bytes`; they are the same memory, or do not overlap.
  /// All members must give the same signature; where they do not, all throw DivergenceError, which says what
  /// two of them are in; so do those whose devices wait for each other in different communicators. Throws
  /// PeerFailure where a process that has not done its part has died or left, and what World::abort gave.
  /// After a throw the communicator is broken: each later call throws the same. `out` is then undefined.
  virtual void run(const Call& call, int rank, const void* in, void* out) = 0;
};

}  // namespace lockstep::collectives
