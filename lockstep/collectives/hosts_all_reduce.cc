// Large all-reduces of HostsCommunicator.
#include <algorithm>
#include <cstring>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/reduce.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kSliceBytes = 512 << 10;  ///< What a member carries of a chunk, at most.
constexpr std::size_t kDirectBytes = 32 << 10;  ///< Slices up to this go to all hosts as a whole.
constexpr std::size_t kLine = 64;
constexpr std::size_t kInFlight = 3;  ///< Chunks on their way at a time.

enum Stage { kWhole = 0, kScattered = 1, kGathered = 2 };

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace

/// An all-reduce in chunks, each in three steps of which those of different chunks overlap. A chunk has a
/// slice for each carrier. First the members of each host sum up, and each carrier sends its slice's pieces,
/// one for each host, to the carriers of the same slice; then each sums up its piece and sends it to the
/// same; then each has its slice of the result, and the members of a host gather the slices.
class HostsCommunicator::AllReduce {
 public:
  AllReduce(HostsCommunicator& of, const Task& task)
      : of_(of),
        task_(task),
        collective_(task.call.collective),
        element_(size_of(collective_.dtype)),
        hosts_(of.layout_.host_count()),
        carriers_(of.layout_.carriers),
        locals_(of.local_count()),
        carries_(task.index < of.layout_.carriers) {
    const std::size_t total = task.call.input_bytes;
    slice_bytes_ = std::min(kSliceBytes, round_up((total + carriers_ - 1) / carriers_, kLine));
    chunk_bytes_ = slice_bytes_ * carriers_;
    chunks_ = (total + chunk_bytes_ - 1) / chunk_bytes_;
    slots_ = task.scratch(0, kInFlight * slice_bytes_);
    received_ = task.scratch(1, kInFlight * hosts_ * slice_bytes_);
    if (locals_ > 1) whole_ = task.scratch(2, chunk_bytes_);
    sources_.resize(hosts_);
  }

  void run() {
    for (std::size_t step = 0; step < chunks_ + 2; ++step) {
      if (step < chunks_) start(step);
      if (step >= 1 && step - 1 < chunks_) sum(step - 1);
      if (step >= 2) finish(step - 2);
    }
  }

 private:
  struct Chunk {
    std::size_t begin = 0, size = 0;  ///< In bytes of the whole.
    std::size_t slice = 0;            ///< Bytes of each slice, the last ones perhaps less.
    std::size_t own = 0;              ///< Bytes of this member's slice.
    const std::byte* from = nullptr;  ///< This host's sum of it,
    std::byte* to = nullptr;          ///< and where the result goes.
    std::vector<Wire::Ticket> receives, sends;
  };

  Chunk& chunk(std::size_t number) { return in_flight_[number % kInFlight]; }
  int peer(int host) const { return of_.layout_.hosts[host][task_.index]; }
  bool direct(const Chunk& chunk) const { return chunk.own * (hosts_ - 1) <= kDirectBytes; }
  std::byte* received(std::size_t number, int host) const {
    return received_ + (number % kInFlight * hosts_ + host) * slice_bytes_;
  }
  /// The piece of a slice that a host sums up.
  std::pair<std::size_t, std::size_t> piece(const Chunk& chunk, int host) const {
    const std::size_t each = round_up((chunk.own + hosts_ - 1) / hosts_, kLine);
    const std::size_t begin = std::min(host * each, chunk.own);
    return {begin, std::min(each, chunk.own - begin)};
  }

  void start(std::size_t number) {
    Chunk& c = chunk(number);
    c = {};
    c.begin = number * chunk_bytes_;
    c.size = std::min(chunk_bytes_, task_.call.input_bytes - c.begin);
    c.slice = round_up((c.size + carriers_ - 1) / carriers_, element_);
    const std::size_t own_begin = std::min(task_.index * c.slice, c.size);
    if (carries_) c.own = std::min(c.slice, c.size - own_begin);
    sum_on_host(number, c, own_begin);
    if (c.own == 0) return;
    Wire& wire = task_.wire();
    const auto [own_piece, own_size] = piece(c, of_.host_);
    for (int host = 0; host < hosts_; ++host) {
      if (host == of_.host_) continue;
      if (direct(c)) {
        c.receives.push_back(wire.receive(peer(host), kWhole, received(number, host), c.own));
      } else if (own_size != 0) {
        c.receives.push_back(wire.receive(peer(host), kScattered, received(number, host), own_size));
      }
    }
    for (int host = 0; host < hosts_; ++host) {
      if (host == of_.host_) continue;
      const auto [begin, size] = piece(c, host);
      if (direct(c)) {
        c.sends.push_back(wire.send(peer(host), kWhole, c.from, c.own));
      } else if (size != 0) {
        c.sends.push_back(wire.send(peer(host), kScattered, c.from + begin, size));
      }
    }
  }

  void sum_on_host(std::size_t number, Chunk& c, std::size_t own_begin) {
    const std::byte* in = task_.in + c.begin;
    if (locals_ == 1) {
      c.from = in;
      c.to = task_.out + c.begin;
      return;
    }
    Collective sum{.kind = Kind::kReduceScatter, .op = collective_.op, .dtype = collective_.dtype};
    std::byte* slot = slots_ + number % kInFlight * slice_bytes_;
    c.from = c.to = slot;
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
      if (c.own != 0) std::memcpy(slot, whole_ + own_begin, c.own);
    }
  }

  void sum(std::size_t number) {
    Chunk& c = chunk(number);
    if (c.own == 0) return;
    Wire& wire = task_.wire();
    wire.wait(c.receives);
    c.receives.clear();
    auto [begin, size] = piece(c, of_.host_);
    if (direct(c)) {
      begin = 0, size = c.own;
      wire.wait(c.sends);  // The result may go where they come from.
    }
    for (int host = 0; host < hosts_; ++host) sources_[host] = received(number, host);
    sources_[of_.host_] = c.from + begin;
    reduce(collective_.op, collective_.dtype, sources_.data(), hosts_, size / element_, c.to + begin, nullptr,
           false);
    if (direct(c)) return;
    // A piece comes back from who has received all of it before.
    for (int host = 0; host < hosts_; ++host) {
      const auto [theirs, their_size] = piece(c, host);
      if (host == of_.host_ || their_size == 0) continue;
      c.receives.push_back(wire.receive(peer(host), kGathered, c.to + theirs, their_size));
    }
    for (int host = 0; host < hosts_ && size != 0; ++host) {
      if (host != of_.host_) c.sends.push_back(wire.send(peer(host), kGathered, c.to + begin, size));
    }
  }

  void finish(std::size_t number) {
    Chunk& c = chunk(number);
    task_.wire().wait(c.receives);
    task_.wire().wait(c.sends);
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
  const std::size_t element_;
  const int hosts_, carriers_, locals_;
  const bool carries_;
  std::size_t slice_bytes_, chunk_bytes_, chunks_;
  std::byte *slots_, *received_, *whole_ = nullptr;
  std::vector<const void*> sources_;
  Chunk in_flight_[kInFlight];
};

void HostsCommunicator::run_all_reduce(const Task& task) { AllReduce(*this, task).run(); }

}  // namespace lockstep::collectives
