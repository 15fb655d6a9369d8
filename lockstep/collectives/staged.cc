// SPDX-License-Identifier: Apache-2.0
// The algorithms of SharedCommunicator.
#include <algorithm>
#include <cstring>

#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/shared_communicator.h"
#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Chunks of equal size, a multiple of `multiple`, that cover `total` and are at most `limit`.
struct Chunks {
  std::size_t total, bytes;

  Chunks(std::size_t total, std::size_t limit, std::size_t multiple) : total(total) {
    limit = std::max(multiple, limit / multiple * multiple);
    const std::size_t count = (total + limit - 1) / limit;
    bytes = round_up((total + count - 1) / count, multiple);
  }
  std::size_t count() const { return (total + bytes - 1) / bytes; }
  std::size_t begin(std::size_t chunk) const { return chunk * bytes; }
  std::size_t size(std::size_t chunk) const { return std::min(bytes, total - begin(chunk)); }
};

/// From this size on, data for other members is written past the processor's caches where that is faster.
constexpr std::size_t kPastCachesFrom = 8 << 10;

/// Whether a line that another core has read takes much longer to write than to write to memory, where the
/// other reads it next. It does on AMD's processors, whose groups of cores have no cache in common; others
/// were not measured.
bool writes_past_caches(std::size_t bytes) {
  if (bytes < kPastCachesFrom) return false;
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd") != 0;
  return is_amd;
#else
  return false;
#endif
}

/// Into memory that other members read next, and have read before.
void stage(std::byte* out, const std::byte* in, std::size_t bytes) {
  copy_bytes(out, in, bytes, writes_past_caches(bytes));
}

}  // namespace

void SharedCommunicator::run_alone(const Call& call, const void* in, void* out) {
  if (call.collective.kind == Kind::kPermute && call.collective.pairs.empty()) {
    std::memset(out, 0, call.output_bytes);
  } else if (call.output_bytes != 0 && out != in) {
    std::memcpy(out, in, call.output_bytes);
  }
}

void SharedCommunicator::reduce_sources(const Collective& c, Local& local, std::size_t count, void* out,
                                        void* copy, bool stream) {
  const int n = size();
  const bool widened = c.partial && partial_type(c.op, c.dtype) != c.dtype;
  const SumTree* tree = tree_ && is_inexact(c.dtype) ? &*tree_ : nullptr;
  if (!widened && tree == nullptr)
    return reduce(c.op, c.dtype, local.sources.data(), n, count, out, copy, stream);
  local.terms.clear();
  for (const void* source : local.sources) local.terms.push_back({source});
  reduce(c.op, c.dtype, {local.terms.data(), n, tree}, count, {out, copy, widened});
}

void SharedCommunicator::run_small(const Call& call, int rank, const std::byte* in, std::byte* out) {
  const Collective& c = call.collective;
  Local& local = locals_[rank];
  const unsigned slot = ++local.operation % 2;
  const auto data = [&](int member) {
    return call.input_bytes <= kInlineBytes ? segment_.words(member).posts[slot].data
                                            : segment_.small(member, slot);
  };
  stage(data(rank), in, call.input_bytes);
  meet(call, rank, /*first=*/true);
  if (call.output_bytes == 0) return;

  const int n = size();
  const std::size_t part = c.count * size_of(c.dtype);
  switch (c.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      const std::size_t offset = c.kind == Kind::kReduceScatter ? rank * part : 0;
      for (int member = 0; member < n; ++member) local.sources[member] = data(member) + offset;
      reduce_sources(c, local, c.count, out, nullptr, false);
      break;
    }
    case Kind::kAllGather:
      for (int member = 0; member < n; ++member) std::memcpy(out + member * part, data(member), part);
      break;
    case Kind::kAllToAll:
      for (int member = 0; member < n; ++member)
        std::memcpy(out + member * part, data(member) + rank * part, part);
      break;
    case Kind::kPermute:
      if (const int source = source_of(c, rank); source >= 0) {
        std::memcpy(out, data(source), part);
      } else {
        std::memset(out, 0, part);
      }
      break;
    case Kind::kBroadcast:
      std::memcpy(out, data(c.root), part);
      break;
    case Kind::kBarrier:
      break;
  }
}

void SharedCommunicator::run_large_all_reduce(const Call& call, int rank, const std::byte* in, std::byte* out,
                                              bool posted) {
  const Collective& c = call.collective;
  Local& local = locals_[rank];
  const std::size_t n = size();
  const std::size_t element = size_of(c.dtype);
  const std::size_t scale = call.output_bytes / call.input_bytes;  // of a partial result
  const bool stream = call.output_bytes >= kStreamFrom;
  const Chunks chunks(call.input_bytes, kChunkBytes / scale, kLine);

  // Copies the others' reduced parts of a chunk that all have stepped past.
  const auto collect = [&](std::size_t chunk, unsigned slot) {
    for (std::size_t member = 0; member < n; ++member) {
      if (static_cast<int>(member) == rank) continue;
      const Share part = share_of(member, n, chunks.size(chunk));
      copy_bytes(out + (chunks.begin(chunk) + part.begin) * scale, segment_.reduced(member, slot),
                 part.size * scale, stream);
    }
  };

  unsigned slot = 0;
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    slot = ++local.chunk % 2;
    const std::size_t begin = chunks.begin(chunk), size = chunks.size(chunk);
    const Share own = share_of(static_cast<std::size_t>(rank), n, size);
    std::byte* staged = segment_.staged(rank, slot);
    stage(staged, in + begin, own.begin);
    const std::size_t own_end = own.begin + own.size;
    stage(staged + own_end, in + begin + own_end, size - own_end);
    meet(call, rank, /*first=*/chunk == 0 && !posted);
    for (std::size_t member = 0; member < n; ++member) {
      local.sources[member] = segment_.staged(member, slot) + own.begin;
    }
    local.sources[rank] = in + begin + own.begin;
    std::byte* const result = out + (begin + own.begin) * scale;
    const bool apart = !stream && writes_past_caches(own.size * scale);
    reduce_sources(c, local, own.size / element, result, apart ? nullptr : segment_.reduced(rank, slot),
                   stream);
    if (apart) stage(segment_.reduced(rank, slot), result, own.size * scale);
    if (chunk != 0) collect(chunk - 1, slot ^ 1);
  }
  meet(call, rank, /*first=*/false);
  collect(chunks.count() - 1, slot);
}

void SharedCommunicator::run_large_exchange(const Call& call, int rank, const std::byte* in, std::byte* out,
                                            bool posted) {
  const Collective& c = call.collective;
  Local& local = locals_[rank];
  const std::size_t n = size();
  const std::size_t part = c.count * size_of(c.dtype);
  const bool stream = call.output_bytes >= kStreamFrom;
  const bool splits = c.kind == Kind::kReduceScatter || c.kind == Kind::kAllToAll;
  const bool sending = sends(c, rank);
  const int source = c.kind == Kind::kPermute ? source_of(c, rank) : c.kind == Kind::kBroadcast ? c.root : -1;
  // If inputs are split, a chunk has a piece of every part; the parts are `pitch` apart in the staged chunk.
  const Chunks chunks(part, splits ? kChunkBytes / n : kChunkBytes, kLine);
  const std::size_t pitch = chunks.bytes;

  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const unsigned slot = ++local.chunk % 2;
    const std::size_t begin = chunks.begin(chunk), size = chunks.size(chunk);
    std::byte* staged = segment_.staged(rank, slot);
    if (splits) {
      for (std::size_t member = 0; member < n; ++member) {
        if (static_cast<int>(member) != rank) {
          stage(staged + member * pitch, in + member * part + begin, size);
        }
      }
    } else if (sending) {
      stage(staged, in + begin, size);
    }
    // The own piece while the others are not there yet.
    if (c.kind == Kind::kAllGather || c.kind == Kind::kAllToAll)
      copy_bytes(out + rank * part + begin, in + (splits ? rank * part : 0) + begin, size, stream);
    meet(call, rank, /*first=*/chunk == 0 && !posted);
    switch (c.kind) {
      case Kind::kAllGather:
      case Kind::kAllToAll:
        for (std::size_t member = 0; member < n; ++member) {
          if (static_cast<int>(member) == rank) continue;
          copy_bytes(out + member * part + begin, segment_.staged(member, slot) + (splits ? rank * pitch : 0),
                     size, stream);
        }
        break;
      case Kind::kReduceScatter:
        for (std::size_t member = 0; member < n; ++member) {
          local.sources[member] = segment_.staged(member, slot) + rank * pitch;
        }
        local.sources[rank] = in + rank * part + begin;
        reduce_sources(c, local, size / size_of(c.dtype), out + begin * (call.output_bytes / part), nullptr,
                       stream);
        break;
      case Kind::kPermute:
      case Kind::kBroadcast:
        if (source < 0) {
          std::memset(out + begin, 0, size);
        } else {
          copy_bytes(out + begin, source == rank ? in + begin : segment_.staged(source, slot), size, stream);
        }
        break;
      case Kind::kAllReduce:
      case Kind::kBarrier:
        break;
    }
  }
}

}  // namespace lockstep::collectives
