// SPDX-License-Identifier: Apache-2.0
// Large all-reduces of HostsCommunicator.
#include <algorithm>
#include <cstring>
#include <memory>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/rounds/pieces.h"
#include "lockstep/collectives/rounds/schedule_run.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kInFlight = kSlicesInFlight;  ///< Chunks on their way at a time.

}  // namespace

/// An all-reduce in chunks, of which several are in progress at a time. A chunk has a slice for each carrier.
/// First the members of each host sum; then the carriers of a slice, one on each host, compute the sum over
/// all hosts, by the algorithm from the table; then the members of a host gather the slices.
class HostsCommunicator::AllReduce {
 public:
  AllReduce(HostsCommunicator& of, const Task& task)
      : of_(of),
        task_(task),
        collective_(task.call.collective),
        types_(of.types_for(task, Kind::kAllReduce)),
        scale_(types_.scale(Area::kInput)),
        fixed_(of.layout_.most > 1 && of.is_in_fixed_order(task, Kind::kAllReduce)),
        blocks_(fixed_ ? of.own_blocks() : 1),
        element_(size_of(collective_.dtype)),
        carriers_(of.layout_.carriers),
        locals_(of.local_count()),
        carrier_(task.wire(), of.layout_, task.index) {
    const std::size_t total = task.call.input_bytes;
    slice_bytes_ = all_reduce_slice(total * scale_, of.layout_.host_count(), carriers_) / scale_;
    chunk_bytes_ = slice_bytes_ * carriers_;
    chunks_ = (total + chunk_bytes_ - 1) / chunk_bytes_;
    // Each slot has sums of this host and, behind them, results if those have other bytes.
    const std::size_t sums = blocks_ * scale_;
    slots_ = task.scratch(0, kInFlight * slice_bytes_ * (sums == 1 ? 1 : sums + 1));
    if (locals_ > 1)
      whole_ = task.scratch(1, fixed_                 ? slice_bytes_ * locals_
                               : locals_ == carriers_ ? chunk_bytes_
                                                      : chunk_bytes_ * scale_);
    if (fixed_) here_ = task.scratch(kLastScratch, slice_bytes_ * locals_);
  }

  void run() {
    // Before anything is in progress, because a wait for a connection makes no progress with it.
    connect_for(0);
    connect_for(chunks_ - 1);
    for (std::size_t step = 0; step < chunks_ + kInFlight - 1; ++step) {
      if (step < chunks_) start(step);
      if (step + 1 >= kInFlight) finish(step + 1 - kInFlight);
    }
  }

 private:
  struct Chunk {
    std::size_t begin = 0, size = 0;     ///< In bytes of the whole.
    std::size_t slice = 0;               ///< Bytes of each slice, the last ones perhaps less.
    std::size_t own_begin = 0, own = 0;  ///< This member's slice.
    const std::byte* from = nullptr;     ///< This host's sum of it,
    std::byte* to = nullptr;             ///< and where the result goes.
    std::unique_ptr<Schedule> schedule;
    std::unique_ptr<ScheduleRun> run;  ///< Between the hosts; none where there is nothing to carry.
  };

  /// The chunk's position in the whole, and the slice that this member carries.
  Chunk cut(std::size_t number) const {
    Chunk c;
    c.begin = number * chunk_bytes_;
    c.size = std::min(chunk_bytes_, task_.call.input_bytes - c.begin);
    c.slice = round_up((c.size + carriers_ - 1) / carriers_, element_);
    c.own_begin = std::min(task_.index * c.slice, c.size);
    if (task_.index < carriers_) c.own = std::min(c.slice, c.size - c.own_begin);
    return c;
  }

  void connect_for(std::size_t number) {
    if (const std::size_t own = cut(number).own; own != 0) of_.connect_for(task_, Kind::kAllReduce, own);
  }

  Chunk& chunk(std::size_t number) { return in_flight_[number % kInFlight]; }

  void start(std::size_t number) {
    Chunk& c = chunk(number);
    c.run.reset();
    c = cut(number);
    sum_on_host(number, c);
    if (c.own == 0) return;
    c.schedule = of_.schedule_for(task_, Kind::kAllReduce, c.own);
    const int slot = static_cast<int>(number % kInFlight);
    std::byte* scratch = task_.scratch(kScheduleScratch + slot, scratch_bytes(*c.schedule, types_));
    c.run = std::make_unique<ScheduleRun>(*c.schedule, carrier_, slot, collective_.op, types_,
                                          Memory{c.from, c.to, scratch});
    advance();
  }

  void sum_on_host(std::size_t number, Chunk& c) {
    const std::byte* in = task_.in + c.begin;
    const std::size_t sums = blocks_ * scale_;
    std::byte* slot = slots_ + number % kInFlight * slice_bytes_ * sums;
    c.from = slot;
    c.to = sums == 1 ? slot : slots_ + (kInFlight * sums + number % kInFlight) * slice_bytes_;
    if (locals_ == 1) {
      c.to = task_.out + c.begin;
      if (scale_ == 1) {
        c.from = in;
      } else {
        make_partial(collective_, in, c.size / element_, slot);
      }
      return;
    }
    if (fixed_) {
      // Each carrier gets all members' slices; members that are none get nothing that they need.
      std::memcpy(whole_, in, c.size);
      of_.run_local(
          task_, {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(c.slice)},
          whole_, here_);
      if (c.own != 0) of_.sum_blocks(task_, here_, c.slice, c.own / element_, slot);
      return;
    }
    Collective sum{
        .kind = Kind::kReduceScatter, .op = collective_.op, .dtype = collective_.dtype, .partial = true};
    if (locals_ == carriers_) {
      if (c.slice * carriers_ != c.size) {
        std::memcpy(whole_, in, c.size);
        std::memset(whole_ + c.size, 0, c.slice * carriers_ - c.size);
        in = whole_;
      }
      sum.count = static_cast<std::int64_t>(c.slice / element_);
      of_.run_local(task_, sum, in, slot);
    } else {
      sum.kind = Kind::kAllReduce;
      sum.count = static_cast<std::int64_t>(c.size / element_);
      of_.run_local(task_, sum, in, whole_);
      if (c.own != 0) std::memcpy(slot, whole_ + c.own_begin * scale_, c.own * scale_);
    }
  }

  /// All that are on their way.
  void advance() {
    for (Chunk& c : in_flight_) {
      if (c.run) c.run->advance();
    }
  }

  void finish(std::size_t number) {
    Chunk& c = chunk(number);
    if (c.run) {
      task_.wire().wait_until([&] { return carrier_.rank(c.run->awaited()); },
                              [&] {
                                advance();
                                return c.run->advance();
                              });
    }
    if (locals_ == 1) return;
    std::byte* out = task_.out + c.begin;
    if (locals_ != carriers_) {
      for (int carrier = 0; carrier < carriers_; ++carrier) {
        const std::size_t begin = std::min(carrier * c.slice, c.size),
                          size = std::min(c.slice, c.size - begin);
        of_.spread(task_, c.to, out + begin, size, carrier);
      }
    } else if (c.slice * carriers_ == c.size) {
      of_.gather(task_, c.to, out, c.slice);
    } else {
      of_.gather(task_, c.to, whole_, c.slice);
      std::memcpy(out, whole_, c.size);
    }
  }

  HostsCommunicator& of_;
  const Task& task_;
  const Collective& collective_;
  const SumTypes types_;  ///< between the hosts
  const std::size_t scale_;
  const bool fixed_;          ///< each carrier sums this host's blocks
  const std::size_t blocks_;  ///< inputs of this host between the hosts
  const std::size_t element_;
  const int carriers_, locals_;
  WireCarrier carrier_;
  std::size_t slice_bytes_, chunk_bytes_, chunks_;
  std::byte *slots_, *whole_ = nullptr, *here_ = nullptr;
  Chunk in_flight_[kInFlight];
};

void HostsCommunicator::run_all_reduce(const Task& task) { AllReduce(*this, task).run(); }

}  // namespace lockstep::collectives
