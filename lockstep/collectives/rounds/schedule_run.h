// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/rounds/algorithm.h"

namespace lockstep::collectives {

/// Transports the messages of one participant.
class Carrier {
 public:
  using Ticket = std::size_t;

  virtual ~Carrier() = default;

  /// Messages between two participants are matched in the order in which they are sent and received,
  /// separately for each `slot`. Nothing blocks; the memory must stay valid until the ticket has finished.
  virtual Ticket send(int participant, int slot, const void* data, std::size_t bytes) = 0;
  virtual Ticket receive(int participant, int slot, void* data, std::size_t bytes) = 0;
  virtual bool finished(Ticket ticket) = 0;
};

/// The dtypes of a reduction's areas; of other collectives all are one.
struct SumTypes {
  SumTypes(DType dtype) : input(dtype), partial(dtype), result(dtype) {}
  /// `partial_input`: what the participants have are partial results already.
  SumTypes(ReduceOp op, DType dtype, bool partial_input)
      : input(partial_input ? partial_type(op, dtype) : dtype),
        partial(partial_type(op, dtype)),
        result(dtype) {}

  DType of(Area area) const;
  /// How many times the bytes of the results those in `area` have.
  std::size_t scale(Area area) const { return size_of(of(area)) / size_of(result); }

  DType input;    ///< also of kScratch
  DType partial;  ///< of kPartial and kReceived
  DType result;
};

/// A participant's memory. If `input` is null, nothing is copied and summed: only messages without content
/// are exchanged.
struct Memory {
  const std::byte* input;
  std::byte *output, *scratch;  ///< `scratch` has scratch_bytes()
};

/// The bytes that an algorithm needs beside its input and output.
std::size_t scratch_bytes(const Schedule& schedule, const SumTypes& types);

/// The execution of one algorithm by one participant.
class ScheduleRun {
 public:
  /// `algorithm` and `carrier` must outlive it. Concurrent runs of a participant need different slots, and
  /// begin in the same order on all participants.
  ScheduleRun(const Schedule& schedule, Carrier& carrier, int slot, ReduceOp op, const SumTypes& types,
              Memory memory);

  /// Does everything that is possible without waiting; returns whether the run is finished. Call it until it
  /// is.
  bool advance();

  /// A participant whose message it waits for, or which has not received one.
  int awaited() const { return pending_.back().participant; }

 private:
  void begin_round();
  void end_round();
  void copy(const Copy& copy) const;
  void sum(const Sum& sum);
  const std::byte* from(const Place& place) const;
  std::byte* to(const Place& place) const;
  std::size_t bytes(const Place& place, std::size_t bytes) const { return bytes * types_.scale(place.area); }
  bool is_partial(const Place& place) const { return types_.of(place.area) != types_.result; }

  struct Pending {
    Carrier::Ticket ticket;
    int participant;
  };

  const Schedule& schedule_;
  Carrier& carrier_;
  const int slot_;
  const ReduceOp op_;
  const SumTypes types_;
  const Memory memory_;
  std::byte* bases_[5] = {};  ///< of the areas; not that of the input
  int round_ = -1;            ///< the current round
  Round now_;
  std::vector<Pending> pending_;
  std::vector<Term> terms_;
  std::vector<const void*> sources_;
};

}  // namespace lockstep::collectives
