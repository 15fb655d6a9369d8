// SPDX-License-Identifier: Apache-2.0
// Large operations of HostsCommunicator in which one member of each host takes part in an algorithm between
// the hosts (rounds/). If hosts have several members, each of them does so with its share.
#include <algorithm>
#include <cstring>
#include <set>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/rounds/pieces.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kBroadcastPiece = 4 << 20;

/// So many hosts' pieces the members of a host exchange at a time.
int hosts_at_once(int hosts, int locals, std::size_t piece) {
  const std::size_t most = kStaged / (static_cast<std::size_t>(locals) * std::max<std::size_t>(piece, 1));
  return std::clamp(static_cast<int>(std::min<std::size_t>(most, 1 << 20)), 1, hosts);
}

}  // namespace

std::unique_ptr<Schedule> HostsCommunicator::schedule_for(const Task& task, Kind kind, std::size_t bytes,
                                                          int root) const {
  const int hosts = layout_.host_count();
  if (is_in_fixed_order(task, kind))
    return make_schedule(Algorithm::kPairwise, {kind, host_, hosts, bytes, root, &*blocks_});
  const SumTypes types = types_for(task, kind);
  const Algorithm algorithm = job_.algorithms().choose(kind, bytes, hosts, types.partial != types.result);
  return make_schedule(algorithm, {kind, host_, hosts, bytes, root});
}

SumTypes HostsCommunicator::types_for(const Task& task, Kind kind) const {
  const Collective& c = task.call.collective;
  if (kind != Kind::kAllReduce && kind != Kind::kReduceScatter) return SumTypes(c.dtype);
  return SumTypes(c.op, c.dtype, /*partial_input=*/layout_.most > 1);
}

bool HostsCommunicator::is_in_fixed_order(const Task& task, Kind kind) const {
  return blocks_ && is_inexact(task.call.collective.dtype) &&
         (kind == Kind::kAllReduce || kind == Kind::kReduceScatter);
}

void HostsCommunicator::sum_blocks(const Task& task, const std::byte* in, std::size_t stride,
                                   std::size_t count, std::byte* out) const {
  const Collective& c = task.call.collective;
  std::vector<Term> terms;
  std::size_t member = 0;
  for (const Block& block : blocks_->blocks[static_cast<std::size_t>(host_)]) {
    terms.clear();
    for (int i = 0; i < block.size; ++i) terms.push_back({in + member++ * stride});
    const SumTree tree(block.size);
    reduce(c.op, c.dtype, {terms.data(), block.size, &tree}, count, {out, nullptr, /*is_partial=*/true});
    out += count * size_of(partial_type(c.op, c.dtype));
  }
}

WireCarrier HostsCommunicator::carrier_for(const Task& task, Kind kind) const {
  if (kind != Kind::kBroadcast) return WireCarrier(task.wire(), layout_, task.index);
  return WireCarrier(task.wire(), layout_, task.index, task.call.collective.root);
}

void HostsCommunicator::connect_for(const Task& task, Kind kind, std::size_t bytes, int root) {
  if (!task.plan.exchanges.emplace(kind, bytes).second) return;
  const auto schedule = schedule_for(task, kind, bytes, root);
  const WireCarrier carrier = carrier_for(task, kind);
  std::set<int> ranks;
  Round round;
  for (int number = 0; number < schedule->rounds(); ++number) {
    round.clear();
    schedule->write(number, round);
    for (const auto* messages : {&round.sends, &round.receives})
      for (const RoundMessage& message : *messages) ranks.insert(carrier.rank(message.peer));
  }
  task.wire().connect({ranks.begin(), ranks.end()});
}

void HostsCommunicator::exchange(const Task& task, Kind kind, std::size_t bytes, const std::byte* in,
                                 std::byte* out, int root) {
  if (bytes == 0) return;
  connect_for(task, kind, bytes, root);
  const auto schedule = schedule_for(task, kind, bytes, root);
  WireCarrier carrier = carrier_for(task, kind);
  const SumTypes types = types_for(task, kind);
  ScheduleRun run(*schedule, carrier, /*slot=*/0, task.call.collective.op, types,
                  {in, out, task.scratch(kScheduleScratch, scratch_bytes(*schedule, types))});
  task.wire().wait_until([&] { return carrier.rank(run.awaited()); }, [&] { return run.advance(); });
}

void HostsCommunicator::run_reduce_scatter(const Task& task) {
  if (!layout_.is_even()) return run_uneven_reduce_scatter(task);
  const Collective& c = task.call.collective;
  const std::size_t element = size_of(c.dtype), part = c.count * element;
  const int hosts = layout_.host_count(), locals = local_count();
  const SumTypes types = types_for(task, Kind::kReduceScatter);
  if (locals == 1 && scratch_bytes(*schedule_for(task, Kind::kReduceScatter, part), types) <= kMostScratch)
    return exchange(task, Kind::kReduceScatter, part, task.in, task.out);
  const std::size_t scale = types.scale(Area::kInput);
  const bool fixed = locals > 1 && is_in_fixed_order(task, Kind::kReduceScatter);
  const std::size_t blocks = fixed ? own_blocks() : 1;
  const std::size_t widest = types.scale(Area::kPartial);
  const std::size_t piece = piece_bytes(part * widest, static_cast<std::size_t>(hosts)) / widest;
  const int at_once = hosts_at_once(hosts, locals, piece);
  std::byte* regrouped = task.scratch(0, static_cast<std::size_t>(locals * at_once) * piece);
  std::byte* sums = task.scratch(1, static_cast<std::size_t>(hosts) * piece * blocks * scale);
  std::byte* all = task.scratch(kLastScratch, fixed ? static_cast<std::size_t>(locals * at_once) * piece : 0);
  for (std::size_t begin = 0; begin < part; begin += piece) {
    const std::size_t size = std::min(piece, part - begin);
    for (int first = 0; first < hosts; first += at_once) {
      const int some = std::min(at_once, hosts - first);
      const std::size_t some_bytes = static_cast<std::size_t>(some) * size;
      std::byte* const together = sums + static_cast<std::size_t>(first) * size * blocks * scale;
      std::byte* to = locals == 1 ? together : regrouped;
      for (int local = 0; local < locals; ++local) {
        for (int host = first; host < first + some; ++host, to += size)
          std::memcpy(to, task.in + static_cast<std::size_t>(layout_.hosts[host][local]) * part + begin,
                      size);
      }
      if (locals == 1) continue;
      if (fixed) {
        run_local(
            task,
            {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(some_bytes)},
            regrouped, all);
        for (std::size_t host = 0; host < static_cast<std::size_t>(some); ++host)
          sum_blocks(task, all + host * size, some_bytes, size / element,
                     together + host * size * blocks * scale);
        continue;
      }
      run_local(task,
                {.kind = Kind::kReduceScatter,
                 .op = c.op,
                 .dtype = c.dtype,
                 .count = static_cast<std::int64_t>(some_bytes / element),
                 .partial = true},
                regrouped, together);
    }
    exchange(task, Kind::kReduceScatter, size, sums, task.out + begin);
  }
}

void HostsCommunicator::run_all_gather(const Task& task) {
  if (!layout_.is_even()) return run_uneven_all_gather(task);
  const std::size_t part = task.call.input_bytes;
  const int hosts = layout_.host_count(), locals = local_count();
  if (locals == 1) return exchange(task, Kind::kAllGather, part, task.in, task.out);
  const std::size_t piece = piece_bytes(part, static_cast<std::size_t>(hosts));
  const int at_once = hosts_at_once(hosts, locals, piece);
  std::byte* own = task.scratch(0, static_cast<std::size_t>(hosts) * piece);
  std::byte* all = task.scratch(1, static_cast<std::size_t>(locals * at_once) * piece);
  for (std::size_t begin = 0; begin < part; begin += piece) {
    const std::size_t size = std::min(piece, part - begin);
    exchange(task, Kind::kAllGather, size, task.in + begin, own);
    for (int first = 0; first < hosts; first += at_once) {
      const int some = std::min(at_once, hosts - first);
      gather(task, own + static_cast<std::size_t>(first) * size, all, static_cast<std::size_t>(some) * size);
      const std::byte* from = all;
      for (int local = 0; local < locals; ++local) {
        for (int host = first; host < first + some; ++host, from += size)
          std::memcpy(task.out + static_cast<std::size_t>(layout_.hosts[host][local]) * part + begin, from,
                      size);
      }
    }
  }
}

void HostsCommunicator::run_all_to_all(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t part = c.count * size_of(c.dtype);
  if (is_one_a_host()) {
    run_all_to_all_alone(task, part);
  } else if (goes_together(part)) {
    run_all_to_all_together(task);
  } else if (goes_directly(part)) {
    run_direct_all_to_all(task);
  } else {
    run_uneven_all_to_all(task);
  }
}

void HostsCommunicator::run_all_to_all_alone(const Task& task, std::size_t part) {
  const bool in_place = task.in == task.out;
  const std::size_t needs = schedule_for(task, Kind::kAllToAll, part)->scratch_bytes();
  if (!in_place && needs <= kMostScratch) return exchange(task, Kind::kAllToAll, part, task.in, task.out);
  const auto hosts = static_cast<std::size_t>(layout_.host_count());
  const std::size_t piece = piece_bytes(part, hosts);
  std::byte* going = task.scratch(0, hosts * piece);
  std::byte* coming = task.scratch(1, hosts * piece);
  for (std::size_t begin = 0; begin < part; begin += piece) {
    const std::size_t size = std::min(piece, part - begin);
    for (std::size_t host = 0; host < hosts; ++host)
      std::memcpy(going + host * size, task.in + host * part + begin, size);
    exchange(task, Kind::kAllToAll, size, going, coming);
    for (std::size_t host = 0; host < hosts; ++host)
      std::memcpy(task.out + host * part + begin, coming + host * size, size);
  }
}

/// Small parts of the members of a host are sent to another host together; if there are many members, all
/// parts are.
bool HostsCommunicator::goes_together(std::size_t part) const {
  return layout_.is_even() && (part < kLeastPiece || size() > kMostPartners);
}

bool HostsCommunicator::goes_directly(std::size_t part) const {
  return !is_one_a_host() && !goes_together(part) && size() <= kMostPartners;
}

/// First the members of a host exchange the data for the members with their own index on the other hosts;
/// then these exchange it.
void HostsCommunicator::run_all_to_all_together(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t part = c.count * size_of(c.dtype);
  const auto hosts = static_cast<std::size_t>(layout_.host_count()),
             locals = static_cast<std::size_t>(local_count());
  const std::size_t piece = piece_bytes(part, hosts * locals, kLeastPiece / locals / kLine * kLine);
  std::byte* first = task.scratch(0, hosts * locals * piece);
  std::byte* second = task.scratch(1, hosts * locals * piece);
  for (std::size_t begin = 0; begin < part; begin += piece) {
    const std::size_t size = std::min(piece, part - begin);
    const auto offset = [&](std::size_t host, std::size_t local) {
      return static_cast<std::size_t>(layout_.hosts[host][local]) * part + begin;
    };
    for (std::size_t local = 0; local < locals; ++local)
      for (std::size_t host = 0; host < hosts; ++host)
        std::memcpy(first + (local * hosts + host) * size, task.in + offset(host, local), size);
    run_local(
        task,
        {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(hosts * size)},
        first, second);
    for (std::size_t local = 0; local < locals; ++local)
      for (std::size_t host = 0; host < hosts; ++host)
        std::memcpy(first + (host * locals + local) * size, second + (local * hosts + host) * size, size);
    exchange(task, Kind::kAllToAll, locals * size, first, second);
    for (std::size_t host = 0; host < hosts; ++host)
      for (std::size_t local = 0; local < locals; ++local)
        std::memcpy(task.out + offset(host, local), second + (host * locals + local) * size, size);
  }
}

void HostsCommunicator::run_broadcast(const Task& task) {
  const int root = task.call.collective.root, root_host = layout_.host_of[root];
  const std::size_t part = task.call.input_bytes;
  const int sender = host_ == root_host ? root : layout_.leader(host_);  // to those of this host
  for (std::size_t begin = 0; begin < part; begin += kBroadcastPiece) {
    const std::size_t size = std::min(kBroadcastPiece, part - begin);
    const std::byte* from = task.in + begin;
    if (task.rank == sender) {
      exchange(task, Kind::kBroadcast, size, task.in + begin, task.out + begin, root_host);
      from = task.out + begin;
    }
    spread(task, from, task.out + begin, size, layout_.index_of[sender]);
  }
}

}  // namespace lockstep::collectives
