// Large operations of HostsCommunicator that go from member to member: permutes, and, where hosts have
// different numbers of members, what else goes by rounds (hosts_by_rounds.cc).
#include <algorithm>
#include <cstring>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Pieces of a part, each a multiple of kLine but the last, so that `times` of them are about kChunkBytes,
/// where they are not too small then.
struct Pieces {
  std::size_t total, bytes;

  Pieces(std::size_t total, std::size_t times)
      : total(total), bytes(std::max(kLeastPiece, kChunkBytes / times / kLine * kLine)) {
    bytes = std::min(bytes, total);
  }
  template <class Body>
  void each(Body body) const {
    for (std::size_t begin = 0; begin < total; begin += bytes) body(begin, std::min(bytes, total - begin));
  }
};

}  // namespace

void HostsCommunicator::run_uneven_reduce_scatter(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t element = size_of(c.dtype), part = c.count * element;
  const int hosts = layout_.host_count(), locals = local_count();
  // Each member sums up, for its host, its own part and those of the ranks whose contact it is.
  std::vector<std::vector<int>> parts_of;
  for (int rank : layout_.hosts[host_]) {
    parts_of.push_back(layout_.contacts_of(rank));
    parts_of.back().insert(parts_of.back().begin(), rank);
  }
  const std::size_t most = layout_.most_contacts(host_);
  const Pieces pieces(part, layout_.most_parts());
  std::byte* regrouped = task.scratch(0, locals * most * pieces.bytes);
  std::byte* sums = task.scratch(1, most * pieces.bytes);
  std::byte* received = task.scratch(2, hosts * pieces.bytes);
  Wire& wire = task.wire();
  pieces.each([&](std::size_t begin, std::size_t size) {
    const auto input = [&](int rank) { return task.in + rank * part + begin; };
    const std::vector<int>& own = parts_of[task.index];
    std::vector<const std::byte*> summed;
    if (locals == 1) {
      for (int rank : own) summed.push_back(input(rank));
    } else {
      for (int local = 0; local < locals; ++local) {
        for (std::size_t i = 0; i < most; ++i) {
          std::byte* to = regrouped + (local * most + i) * size;
          if (i < parts_of[local].size()) {
            std::memcpy(to, input(parts_of[local][i]), size);
          } else {
            std::memset(to, 0, size);
          }
        }
      }
      run_local(task,
                {.kind = Kind::kReduceScatter,
                 .op = c.op,
                 .dtype = c.dtype,
                 .count = static_cast<std::int64_t>(most * size / element)},
                regrouped, sums);
      for (std::size_t i = 0; i < own.size(); ++i) summed.push_back(sums + i * size);
    }
    std::vector<Wire::Ticket> tickets;
    std::vector<const void*> sources(hosts, summed[0]);
    for (int host = 0; host < hosts; ++host) {
      if (host == host_) continue;
      sources[host] = received + host * size;
      tickets.push_back(wire.receive(layout_.contact(host, task.rank), 0, received + host * size, size));
    }
    for (std::size_t i = 1; i < own.size(); ++i) tickets.push_back(wire.send(own[i], 0, summed[i], size));
    wire.wait(tickets);
    reduce(c.op, c.dtype, sources.data(), hosts, size / element, task.out + begin, nullptr, false);
  });
}

void HostsCommunicator::run_uneven_all_gather(const Task& task) {
  const std::size_t part = task.call.input_bytes;
  const int hosts = layout_.host_count(), locals = local_count();
  const std::size_t most = layout_.most_contacts(host_);
  const Pieces pieces(part, layout_.most_parts());
  std::byte* own = locals == 1 ? nullptr : task.scratch(0, most * pieces.bytes);
  std::byte* all = locals == 1 ? nullptr : task.scratch(1, locals * most * pieces.bytes);
  Wire& wire = task.wire();
  const std::vector<int> contacts = layout_.contacts_of(task.rank);
  pieces.each([&](std::size_t begin, std::size_t size) {
    const auto output = [&](int rank) { return task.out + rank * part + begin; };
    std::vector<Wire::Ticket> tickets;
    for (std::size_t i = 0; i < contacts.size(); ++i) {
      std::byte* to = locals == 1 ? output(contacts[i]) : own + (i + 1) * size;
      tickets.push_back(wire.receive(contacts[i], 0, to, size));
    }
    for (int host = 0; host < hosts; ++host) {
      if (host == host_) continue;
      tickets.push_back(wire.send(layout_.contact(host, task.rank), 0, task.in + begin, size));
    }
    std::memcpy(locals == 1 ? output(task.rank) : own, task.in + begin, size);
    wire.wait(tickets);
    if (locals == 1) return;
    gather(task, own, all, most * size);
    for (int local = 0; local < locals; ++local) {
      const int rank = layout_.hosts[host_][local];
      const std::byte* from = all + local * most * size;
      std::memcpy(output(rank), from, size);
      for (int other : layout_.contacts_of(rank)) std::memcpy(output(other), from += size, size);
    }
  });
}

void HostsCommunicator::run_direct_all_to_all(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t part = c.count * size_of(c.dtype);
  const int locals = local_count();
  const bool in_place = task.in == task.out;
  const Pieces pieces(part, size());
  std::byte* going = in_place ? task.scratch(0, size() * pieces.bytes) : nullptr;
  std::byte* local_in = task.scratch(1, locals * pieces.bytes);
  std::byte* local_out = task.scratch(2, locals * pieces.bytes);
  Wire& wire = task.wire();
  pieces.each([&](std::size_t begin, std::size_t size) {
    std::vector<Wire::Ticket> tickets;
    std::vector<const std::byte*> from(members_.size());
    for (int rank = 0; rank < this->size(); ++rank) {
      from[rank] = task.in + rank * part + begin;
      if (!in_place) continue;
      std::memcpy(going + rank * size, from[rank], size);
      from[rank] = going + rank * size;
    }
    for (int rank = 0; rank < this->size(); ++rank) {
      if (layout_.same_host(rank, task.rank)) continue;
      tickets.push_back(wire.receive(rank, 0, task.out + rank * part + begin, size));
    }
    for (int rank = 0; rank < this->size(); ++rank) {
      if (!layout_.same_host(rank, task.rank)) tickets.push_back(wire.send(rank, 0, from[rank], size));
    }
    const std::vector<int>& here = layout_.hosts[host_];
    for (int local = 0; local < locals; ++local)
      std::memcpy(local_in + local * size, from[here[local]], size);
    if (locals == 1) {
      std::memcpy(local_out, local_in, size);
    } else {
      run_local(task,
                {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(size)},
                local_in, local_out);
    }
    for (int local = 0; local < locals; ++local) {
      std::memcpy(task.out + here[local] * part + begin, local_out + local * size, size);
    }
    wire.wait(tickets);
  });
}

void HostsCommunicator::run_permute(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t part = task.call.input_bytes;
  int target = -1, source = -1;
  Collective local{.kind = Kind::kPermute, .dtype = DType::kU8};
  for (auto [from, to] : c.pairs) {
    if (from == task.rank) target = to;
    if (to == task.rank) source = from;
    if (layout_.same_host(from, task.rank) && layout_.same_host(to, task.rank)) {
      local.pairs.emplace_back(layout_.index_of[from], layout_.index_of[to]);
    }
  }
  const bool sends = target >= 0 && !layout_.same_host(target, task.rank);
  const bool receives = source >= 0 && !layout_.same_host(source, task.rank);
  const Pieces pieces(part, 1);
  std::byte* going = task.scratch(0, pieces.bytes);
  pieces.each([&](std::size_t begin, std::size_t size) {
    std::vector<Wire::Ticket> tickets;
    if (sends) {
      const std::byte* from = task.in + begin;
      if (task.in == task.out) from = static_cast<std::byte*>(std::memcpy(going, from, size));
      tickets.push_back(task.wire().send(target, 0, from, size));
    }
    local.count = static_cast<std::int64_t>(size);
    if (local_ != nullptr) {
      run_local(task, local, task.in + begin, task.out + begin);
    } else if (source < 0) {
      std::memset(task.out + begin, 0, size);
    } else if (source == task.rank && task.in != task.out) {
      std::memcpy(task.out + begin, task.in + begin, size);
    }
    if (receives) tickets.push_back(task.wire().receive(source, 0, task.out + begin, size));
    task.wire().wait(tickets);
  });
}

}  // namespace lockstep::collectives
