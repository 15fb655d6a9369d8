// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

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

/// A participant's memory. If `input` is null, nothing is copied and summed: only messages without content
/// are exchanged.
struct Memory {
  const std::byte* input;
  std::byte *output, *scratch;
};

/// The execution of one algorithm by one participant.
class AlgorithmRun {
 public:
  /// `algorithm` and `carrier` must outlive it. Concurrent runs of a participant need different slots, and
  /// begin in the same order on all participants.
  AlgorithmRun(const Algorithm& algorithm, Carrier& carrier, int slot, ReduceOp op, DType dtype,
               Memory memory);

  /// Does everything that is possible without waiting; returns whether the run is finished. Call it until it
  /// is.
  bool advance();

  /// A participant whose message it waits for, or which has not received one.
  int awaited() const { return pending_.back().participant; }

 private:
  void begin_round();
  void end_round();
  const std::byte* from(const Place& place) const;
  std::byte* to(const Place& place) const;

  struct Pending {
    Carrier::Ticket ticket;
    int participant;
  };

  const Algorithm& algorithm_;
  Carrier& carrier_;
  const int slot_;
  const ReduceOp op_;
  const DType dtype_;
  const Memory memory_;
  int round_ = -1;  ///< the current round
  Round now_;
  std::vector<Pending> pending_;
  std::vector<const void*> sources_;
};

}  // namespace lockstep::collectives
