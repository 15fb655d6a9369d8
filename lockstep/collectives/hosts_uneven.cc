// SPDX-License-Identifier: Apache-2.0
// Large operations of HostsCommunicator that are sent from member to member, and those by rounds if hosts
// have different numbers of members.
#include <algorithm>
#include <cstring>

#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/rounds/pieces.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Pieces of a part, each a multiple of kLine except the last, so that `times` of them are about kChunkBytes,
/// unless they would be too small.
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

// If hosts have different numbers of members, the number of carriers on each host is that of the smallest
// host. Each carries its slice of every part; smaller hosts send parts of zeros in place of missing members.
// A piece of a part is divided into slices:
//     [carrier][host][member of it] slice

/// How the parts of an operation are cut.
struct HostsCommunicator::Slices {
  Slices(const HostLayout& layout, std::size_t part, std::size_t element, std::size_t most_bytes)
      : carriers(static_cast<std::size_t>(layout.carriers)) {
    const auto rows = static_cast<std::size_t>(layout.host_count() * layout.most);
    const std::size_t fits = std::max(element, most_bytes / (rows * carriers) / element * element);
    slice = std::min(fits, round_up((part + carriers - 1) / carriers, element));
    piece = slice * carriers;
  }

  /// The number of bytes in a carrier's slice of a piece of `size` bytes.
  std::size_t bytes(std::size_t carrier, std::size_t size) const {
    return std::min(slice, size - std::min(size, carrier * slice));
  }

  std::size_t carriers, slice, piece;
};

void HostsCommunicator::run_uneven_reduce_scatter(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t element = size_of(c.dtype), part = c.count * element;
  const Slices slices(layout_, part, element, kStaged);
  const std::size_t slice = slices.slice, most = static_cast<std::size_t>(layout_.most),
                    rows = static_cast<std::size_t>(layout_.host_count()) * most,
                    all = slices.carriers * rows * slice;
  const std::size_t scale = types_for(task, Kind::kReduceScatter).scale(Area::kInput);
  const bool fixed = is_in_fixed_order(task, Kind::kReduceScatter);
  const std::size_t blocks = fixed ? own_blocks() : 1, locals = static_cast<std::size_t>(local_count());
  // The bytes that each member of the host gets in an all-to-all; not all are carriers.
  const std::size_t each = rows * slice;
  std::byte* cut = task.scratch(0, fixed ? locals * each : all);
  std::byte* summed = task.scratch(1, fixed                             ? each * blocks * scale
                                      : local_ == nullptr && scale == 1 ? 0
                                                                        : all * scale);
  std::byte* here = task.scratch(kLastScratch, fixed && local_ != nullptr ? locals * each : 0);
  std::byte* received = task.scratch(kScheduleScratch + 1, most * slice);
  for (std::size_t begin = 0; begin < part; begin += slices.piece) {
    const std::size_t size = std::min(slices.piece, part - begin);
    std::memset(cut, 0, fixed ? locals * each : all);
    for (std::size_t carrier = 0; carrier < slices.carriers; ++carrier) {
      const std::size_t bytes = slices.bytes(carrier, size);
      for (int rank = 0; rank < this->size() && bytes != 0; ++rank) {
        std::memcpy(cut + (carrier * rows + row_of(rank)) * slice,
                    task.in + static_cast<std::size_t>(rank) * part + begin + carrier * slice, bytes);
      }
    }
    const std::byte* sums = summed;
    const auto index = static_cast<std::size_t>(task.index);
    if (fixed) {
      if (local_ != nullptr) {
        run_local(task,
                  {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(each)},
                  cut, here);
      }
      const std::byte* inputs = local_ != nullptr ? here : cut;
      for (std::size_t host = 0; host < rows / most && index < slices.carriers; ++host)
        sum_blocks(task, inputs + host * most * slice, each, most * slice / element,
                   summed + host * most * slice * blocks * scale);
    } else if (local_ != nullptr) {
      run_local(task,
                {.kind = Kind::kAllReduce,
                 .op = c.op,
                 .dtype = c.dtype,
                 .count = static_cast<std::int64_t>(all / element),
                 .partial = true},
                cut, summed);
    } else if (scale == 1) {
      sums = cut;
    } else {
      make_partial(c, cut, all / element, summed);
    }
    if (index < slices.carriers)
      exchange(task, Kind::kReduceScatter, most * slice, fixed ? sums : sums + index * each * scale,
               received);
    for (std::size_t carrier = 0; carrier < slices.carriers; ++carrier) {
      spread(task, received, cut, most * slice, static_cast<int>(carrier));
      const std::byte* from = local_ == nullptr ? received : cut;
      std::memcpy(task.out + begin + carrier * slice, from + index * slice, slices.bytes(carrier, size));
    }
  }
}

void HostsCommunicator::run_uneven_all_gather(const Task& task) {
  const std::size_t part = task.call.input_bytes;
  const Slices slices(layout_, part, /*element=*/1, kStaged);
  const std::size_t slice = slices.slice, most = static_cast<std::size_t>(layout_.most),
                    rows = static_cast<std::size_t>(layout_.host_count()) * most,
                    locals = static_cast<std::size_t>(local_count());
  std::byte* here = task.scratch(0, locals * slices.piece);
  std::byte* own = task.scratch(1, most * slice);
  std::byte* all = task.scratch(kScheduleScratch + 1, rows * slice);
  std::byte* theirs = task.scratch(kScheduleScratch + 2, rows * slice);
  for (std::size_t begin = 0; begin < part; begin += slices.piece) {
    const std::size_t size = std::min(slices.piece, part - begin);
    gather(task, task.in + begin, here, size);
    const auto index = static_cast<std::size_t>(task.index);
    if (index < slices.carriers) {
      std::memset(own, 0, most * slice);
      for (std::size_t local = 0; local < locals; ++local)
        std::memcpy(own + local * slice, here + local * size + std::min(size, index * slice),
                    slices.bytes(index, size));
      exchange(task, Kind::kAllGather, most * slice, own, all);
    }
    for (std::size_t carrier = 0; carrier < slices.carriers; ++carrier) {
      spread(task, all, theirs, rows * slice, static_cast<int>(carrier));
      const std::byte* from = local_ == nullptr ? all : theirs;
      const std::size_t bytes = slices.bytes(carrier, size);
      for (int rank = 0; rank < this->size() && bytes != 0; ++rank) {
        std::memcpy(task.out + static_cast<std::size_t>(rank) * part + begin + carrier * slice,
                    from + row_of(rank) * slice, bytes);
      }
    }
  }
}

/// First each member gives each carrier its slices for all members; the carriers exchange those of all
/// members of one host for all of another; then each gives the members of its host the received slices.
void HostsCommunicator::run_uneven_all_to_all(const Task& task) {
  const Collective& c = task.call.collective;
  const std::size_t part = c.count * size_of(c.dtype);
  const std::size_t most = static_cast<std::size_t>(layout_.most),
                    hosts = static_cast<std::size_t>(layout_.host_count()), rows = hosts * most,
                    locals = static_cast<std::size_t>(local_count());
  const Slices slices(layout_, part, /*element=*/1, kStaged / most);
  const std::size_t slice = slices.slice, row = rows * slice;
  // Between members of a host: [member] of [host][member of it] slices; between hosts: [host][member
  // here][member there] slices.
  std::byte* going = task.scratch(0, std::max(locals, most) * row);
  std::byte* coming = task.scratch(1, std::max(locals, most) * row);
  const auto index = static_cast<std::size_t>(task.index);
  const auto among_locals = [&](const std::byte* from, std::byte* to) {
    if (local_ == nullptr) {
      std::memcpy(to, from, row);
      return;
    }
    run_local(task, {.kind = Kind::kAllToAll, .dtype = DType::kU8, .count = static_cast<std::int64_t>(row)},
              from, to);
  };
  for (std::size_t begin = 0; begin < part; begin += slices.piece) {
    const std::size_t size = std::min(slices.piece, part - begin);
    std::memset(going, 0, locals * row);
    for (std::size_t carrier = 0; carrier < slices.carriers; ++carrier) {
      const std::size_t bytes = slices.bytes(carrier, size);
      for (int rank = 0; rank < this->size() && bytes != 0; ++rank) {
        std::memcpy(going + carrier * row + row_of(rank) * slice,
                    task.in + static_cast<std::size_t>(rank) * part + begin + carrier * slice, bytes);
      }
    }
    among_locals(going, coming);
    if (index < slices.carriers) {
      std::memset(going, 0, most * row);
      for (std::size_t host = 0; host < hosts; ++host)
        for (std::size_t local = 0; local < locals; ++local)
          std::memcpy(going + (host * most + local) * most * slice,
                      coming + local * row + host * most * slice, most * slice);
      exchange(task, Kind::kAllToAll, most * most * slice, going, coming);
      for (std::size_t host = 0; host < hosts; ++host)
        for (std::size_t there = 0; there < most; ++there)
          for (std::size_t local = 0; local < locals; ++local)
            std::memcpy(going + local * row + (host * most + there) * slice,
                        coming + ((host * most + there) * most + local) * slice, slice);
    }
    among_locals(going, coming);
    for (std::size_t carrier = 0; carrier < slices.carriers; ++carrier) {
      const std::size_t bytes = slices.bytes(carrier, size);
      for (int rank = 0; rank < this->size() && bytes != 0; ++rank) {
        std::memcpy(task.out + static_cast<std::size_t>(rank) * part + begin + carrier * slice,
                    coming + carrier * row + row_of(rank) * slice, bytes);
      }
    }
  }
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

HostsCommunicator::PermutePlan HostsCommunicator::plan_permute(const Collective& c, int rank) const {
  PermutePlan plan;
  for (const auto& [from, to] : c.pairs) {
    if (from == rank) plan.target = to;
    if (to == rank) plan.source = from;
    if (layout_.same_host(from, rank) && layout_.same_host(to, rank))
      plan.here.emplace_back(layout_.index_of[from], layout_.index_of[to]);
  }
  return plan;
}

void HostsCommunicator::run_permute(const Task& task) {
  const std::size_t part = task.call.input_bytes;
  if (!task.plan.permute) task.plan.permute = plan_permute(task.call.collective, task.rank);
  const auto& [target, source, here] = *task.plan.permute;
  Collective local{.kind = Kind::kPermute, .dtype = DType::kU8, .pairs = here};
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
