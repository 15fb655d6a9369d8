#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/collectives/rounds/algorithm.h"

namespace lockstep::collectives {

/// What carries the messages of one participant.
class Carrier {
 public:
  using Ticket = std::size_t;

  virtual ~Carrier() = default;

  /// Messages between two participants meet in the order in which they are sent and received, for each `slot`
  /// on its own. Nothing blocks; the memory stays until the ticket has finished.
  virtual Ticket send(int participant, int slot, const void* data, std::size_t bytes) = 0;
  virtual Ticket receive(int participant, int slot, void* data, std::size_t bytes) = 0;
  virtual bool finished(Ticket ticket) = 0;
};

/// A participant's memory. Where `input` is null nothing is copied and nothing summed up: only the messages
/// are exchanged, of no content.
struct Memory {
  const std::byte* input;
  std::byte *output, *scratch;
};

/// One algorithm of one participant, on its way.
class AlgorithmRun {
 public:
  /// `algorithm` and `carrier` must outlive it. Runs of a participant at a time need slots of their own; they
  /// begin in the same order on all participants.
  AlgorithmRun(const Algorithm& algorithm, Carrier& carrier, int slot, ReduceOp op, DType dtype,
               Memory memory);

  /// Does what can be done now, without waiting; whether that was all. To be called until then.
  bool advance();

  /// A participant whose message it waits for, or who has not taken one.
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
  int round_ = -1;  ///< The one that goes on.
  Round now_;
  std::vector<Pending> pending_;
  std::vector<const void*> sources_;
};

}  // namespace lockstep::collectives
