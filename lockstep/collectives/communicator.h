// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/plan.h"

namespace lockstep::collectives {

/// One operation that the members of a group do together.
struct Operation {
  std::uint64_t number = 0;  ///< the same for all members that make the same call; 0: none
  std::uint64_t group = 0;   ///< a digest of the members
  std::uint64_t count = 0;   ///< of the operations that the group has begun, with this one
};

/// One collective of one program, as a member of a group calls it repeatedly. Must outlive its calls.
struct Call {
  Collective collective;        ///< `groups` is ignored
  std::string text;             ///< for messages: "psum f32[4] over i at a.cc:10 (program f, call 3)"
  std::uint64_t signature = 0;  ///< a digest of everything that must be the same for all members
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;

  /// The operation over several hosts of which this is a step, if it is one.
  Operation step_of = {};
};

/// The call of `collective`, number `index` of the program, in a group of `size` members. Throws DTypeError
/// if the reduction does not support the dtype, and Error if a rank, a pair or the count is out of range.
Call make_call(const Collective& collective, int size, Fingerprint program = 0,
               const std::string& program_name = {}, std::int64_t index = 0);

/// A member of a communicator, for messages.
struct Member {
  int device = 0;  ///< global device id
  int process = 0;
};

/// A communicator of an ordered list of devices; the rank of a device is its position in the list. Each local
/// member is driven by one thread at a time. All members must make the same calls in the same order. A device
/// is in one collective at a time, over all its communicators.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int size() const = 0;
  virtual const std::vector<Member>& members() const = 0;
  virtual int rank_of(int device) const = 0;  ///< -1 if the device is not a member

  /// Executes the call as member `rank`, and blocks until this member's result is in `out`. `in` has
  /// `call.input_bytes`, `out` has `call.output_bytes`; they are the same memory, or do not overlap. All
  /// members must pass the same signature. Otherwise all throw DivergenceError, with the calls of two of
  /// them; so do members whose devices wait for each other in different communicators. Throws PeerFailure if
  /// a process that has not done its part has died or left, and the cause given to World::abort. After an
  /// exception the communicator is broken: each later call throws the same one. `out` is then undefined.
  virtual void run(const Call& call, int rank, const void* in, void* out) = 0;
};

}  // namespace lockstep::collectives
