// Large operations of HostsCommunicator in which one member of each host takes part in an algorithm between
// the hosts (rounds/). Where hosts have several members each of them does, for its share.
#include <algorithm>
#include <cstring>
#include <set>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Of a part, where members of a host exchange what went between the hosts.
constexpr std::size_t kLeastPiece = 16 << 10;
constexpr std::size_t kStaged = 4 << 20;  ///< All parts' pieces together, where that leaves no less of each.
constexpr std::size_t kBroadcastPiece = 4 << 20;

std::size_t piece_bytes(std::size_t part, int hosts) {
  const std::size_t each = kStaged / static_cast<std::size_t>(hosts) / kLine * kLine;
  return std::min(part, std::max(kLeastPiece, each));
}

/// So many hosts' pieces the members of a host exchange at a time.
int hosts_at_once(int hosts, int locals, std::size_t piece) {
  const std::size_t most = kStaged / (static_cast<std::size_t>(locals) * std::max<std::size_t>(piece, 1));
  return std::clamp(static_cast<int>(std::min<std::size_t>(most, 1 << 20)), 1, hosts);
}

}  // namespace

std::unique_ptr<Algorithm> HostsCommunicator::algorithm_for(Kind kind, std::size_t bytes, int root) const {
  const int hosts = layout_.host_count();
  return make_algorithm(job_.ways().choose(kind, bytes, hosts), {kind, host_, hosts, bytes, root});
}

WireCarrier HostsCommunicator::carrier_for(const Task& task, Kind kind) const {
  if (kind != Kind::kBroadcast) return WireCarrier(task.wire(), layout_, task.index);
  return WireCarrier(task.wire(), layout_, task.index, task.call.collective.root);
}

void HostsCommunicator::connect_for(const Task& task, Kind kind, std::size_t bytes, int root) {
  if (!task.plan.exchanges.emplace(kind, bytes).second) return;
  const auto algorithm = algorithm_for(kind, bytes, root);
  const WireCarrier carrier = carrier_for(task, kind);
  std::set<int> ranks;
  Round round;
  for (int number = 0; number < algorithm->rounds(); ++number) {
    round.clear();
    algorithm->write(number, round);
    for (const auto* messages : {&round.sends, &round.receives})
      for (const RoundMessage& message : *messages) ranks.insert(carrier.rank(message.peer));
  }
  task.wire().connect({ranks.begin(), ranks.end()});
}

void HostsCommunicator::exchange(const Task& task, Kind kind, std::size_t bytes, const std::byte* in,
                                 std::byte* out, int root) {
  if (bytes == 0) return;
  connect_for(task, kind, bytes, root);
  const auto algorithm = algorithm_for(kind, bytes, root);
  WireCarrier carrier = carrier_for(task, kind);
  AlgorithmRun run(*algorithm, carrier, /*slot=*/0, task.call.collective.op, task.call.collective.dtype,
                   {in, out, task.scratch(kAlgorithmScratch, algorithm->scratch_bytes())});
  task.wire().wait_until([&] { return carrier.rank(run.awaited()); }, [&] { return run.advance(); });
}

void HostsCommunicator::run_reduce_scatter(const Task& task) {
  if (!layout_.is_even()) return run_uneven_reduce_scatter(task);
  const Collective& c = task.call.collective;
  const std::size_t element = size_of(c.dtype), part = c.count * element;
  const int hosts = layout_.host_count(), locals = local_count();
  if (locals == 1) return exchange(task, Kind::kReduceScatter, part, task.in, task.out);
  const std::size_t piece = piece_bytes(part, hosts);
  const int at_once = hosts_at_once(hosts, locals, piece);
  std::byte* regrouped = task.scratch(0, static_cast<std::size_t>(locals * at_once) * piece);
  std::byte* sums = task.scratch(1, static_cast<std::size_t>(hosts) * piece);
  for (std::size_t begin = 0; begin < part; begin += piece) {
    const std::size_t size = std::min(piece, part - begin);
    for (int first = 0; first < hosts; first += at_once) {
      const int some = std::min(at_once, hosts - first);
      std::byte* to = regrouped;
      for (int local = 0; local < locals; ++local) {
        for (int host = first; host < first + some; ++host, to += size)
          std::memcpy(to, task.in + static_cast<std::size_t>(layout_.hosts[host][local]) * part + begin,
                      size);
      }
      run_local(task,
                {.kind = Kind::kReduceScatter,
                 .op = c.op,
                 .dtype = c.dtype,
                 .count = static_cast<std::int64_t>(static_cast<std::size_t>(some) * size / element)},
                regrouped, sums + static_cast<std::size_t>(first) * size);
    }
    exchange(task, Kind::kReduceScatter, size, sums, task.out + begin);
  }
}

void HostsCommunicator::run_all_gather(const Task& task) {
  if (!layout_.is_even()) return run_uneven_all_gather(task);
  const std::size_t part = task.call.input_bytes;
  const int hosts = layout_.host_count(), locals = local_count();
  if (locals == 1) return exchange(task, Kind::kAllGather, part, task.in, task.out);
  const std::size_t piece = piece_bytes(part, hosts);
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
  if (!is_one_a_host()) return run_direct_all_to_all(task);
  const std::byte* in = task.in;
  if (in == task.out)
    in = static_cast<std::byte*>(
        std::memcpy(task.scratch(0, task.call.input_bytes), in, task.call.input_bytes));
  exchange(task, Kind::kAllToAll, c.count * size_of(c.dtype), in, task.out);
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
