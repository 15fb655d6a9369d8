// SPDX-License-Identifier: Apache-2.0
// The algorithms of SharedCommunicator in which members read each other's memory in place.
#include <cstring>

#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/shared_communicator.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Bytes that a member reduces at a time, so few that the others collect them from the shared cache.
constexpr std::size_t kShareBytes = 1 << 20;

/// The offsets of a member's input and output in its arena; negative if they are not in it.
struct Addresses {
  std::int64_t in, out;
};

}  // namespace

bool SharedCommunicator::run_direct(const Call& call, int rank, const std::byte* in, std::byte* out) {
  const Kind kind = call.collective.kind;
  Local& local = locals_[rank];
  const Arena* arena = job_.options().arena;
  const bool can_read =
      std::ranges::none_of(arenas_, [](const ArenaView* arena) { return arena == nullptr; });
  // An output is only read in an all-reduce, and an input that no member needs not at all.
  Addresses own{0, 0};
  if (arena == nullptr || !can_read) {
    own = {-1, -1};
  } else if (kind == Kind::kAllReduce) {
    own = {arena->offset_of(in, call.input_bytes), arena->offset_of(out, call.output_bytes)};
    if (own.in < 0 && own.out >= 0) {
      std::memcpy(out, in, call.input_bytes);
      own.in = own.out;
      in = out;
    }
  } else if (sends(call.collective, rank)) {
    // An input in place cannot be read by others: it is overwritten meanwhile.
    own.in = in == out ? -1 : arena->offset_of(in, call.input_bytes);
  }
  const unsigned slot = local.operation % 2;
  std::memcpy(segment_.words(rank).posts[slot].data, &own, sizeof own);
  meet(call, rank, /*first=*/true);
  bool all = true;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    Addresses theirs;
    std::memcpy(&theirs, segment_.words(static_cast<int>(member)).posts[slot].data, sizeof theirs);
    all = all && theirs.in >= 0 && theirs.out >= 0;
    if (!all) break;
    local.inputs[member] = arenas_[member]->read(static_cast<std::size_t>(theirs.in), call.input_bytes);
    local.outputs[member] = arenas_[member]->read(static_cast<std::size_t>(theirs.out), call.output_bytes);
  }
  if (!all) return false;
  if (kind == Kind::kAllReduce)
    run_direct_all_reduce(call, rank, in, out);
  else
    run_direct_exchange(call, rank, in, out);
  return true;
}

void SharedCommunicator::run_direct_all_reduce(const Call& call, int rank, const std::byte* in,
                                               std::byte* out) {
  const Collective& c = call.collective;
  Local& local = locals_[rank];
  const auto n = static_cast<std::size_t>(size()), own_rank = static_cast<std::size_t>(rank);
  const std::size_t total = call.input_bytes, chunk_bytes = n * kShareBytes;
  const bool stream = call.output_bytes >= kStreamFrom;
  for (std::size_t begin = 0; begin < total; begin += chunk_bytes) {
    const std::size_t chunk = std::min(chunk_bytes, total - begin);
    const Share own = share_of(own_rank, n, chunk);
    for (std::size_t member = 0; member < n; ++member)
      local.sources[member] = local.inputs[member] + begin + own.begin;
    local.sources[own_rank] = in + begin + own.begin;
    reduce_sources(c, local, own.size / size_of(c.dtype), out + begin + own.begin, nullptr, false);
    // All members have reduced their shares, so the part of this chunk that is overwritten now has been read.
    meet(call, rank, /*first=*/false);
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t member = (own_rank + i) % n;
      const Share share = share_of(member, n, chunk);
      copy_bytes(out + begin + share.begin, local.outputs[member] + begin + share.begin, share.size, stream);
    }
  }
  // The others have read the output, which belongs to the caller from here on.
  meet(call, rank, /*first=*/false);
}

void SharedCommunicator::run_direct_exchange(const Call& call, int rank, const std::byte* in,
                                             std::byte* out) {
  const Collective& c = call.collective;
  Local& local = locals_[rank];
  const auto n = static_cast<std::size_t>(size()), own_rank = static_cast<std::size_t>(rank);
  const std::size_t part = c.count * size_of(c.dtype);
  const bool stream = call.output_bytes >= kStreamFrom;
  const auto input_of = [&](std::size_t member) { return member == own_rank ? in : local.inputs[member]; };
  switch (c.kind) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t member = (own_rank + i) % n;
        const std::size_t from = c.kind == Kind::kAllToAll ? own_rank * part : 0;
        copy_bytes(out + member * part, input_of(member) + from, part, stream);
      }
      break;
    case Kind::kReduceScatter:
      for (std::size_t member = 0; member < n; ++member)
        local.sources[member] = input_of(member) + own_rank * part;
      reduce_sources(c, local, static_cast<std::size_t>(c.count), out, nullptr, stream);
      break;
    case Kind::kPermute:
    case Kind::kBroadcast: {
      const int source = c.kind == Kind::kPermute ? source_of(c, rank) : c.root;
      if (source < 0)
        std::memset(out, 0, part);
      else if (const std::byte* from = input_of(static_cast<std::size_t>(source)); from != out)
        copy_bytes(out, from, part, stream);
      break;
    }
    case Kind::kAllReduce:
    case Kind::kBarrier:
      break;
  }
  // The others have read the input, which may be written again from here on.
  meet(call, rank, /*first=*/false);
}

}  // namespace lockstep::collectives
