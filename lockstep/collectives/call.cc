// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/text.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/reduce.h"

namespace lockstep::collectives {
namespace {

constexpr std::array kOpNames = {"sum", "product", "minimum", "maximum"};

std::string describe(const Collective& c) {
  std::string what = c.description;
  if (what.empty()) {
    what = name_of(c.kind);
    if (c.kind != Kind::kBarrier) what += fmt::format(" of {} x {}", c.count, name(c.dtype));
  }
  return what;
}

/// There may be as many groups as the job has processes.
Collective without_groups(const Collective& c) {
  return {.kind = c.kind,
          .op = c.op,
          .dtype = c.dtype,
          .count = c.count,
          .partial = c.partial,
          .groups = {},
          .root = c.root,
          .pairs = c.pairs,
          .description = c.description,
          .site = c.site};
}

bool reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter; }

void check(const Collective& c, int size, const std::string& text) {
  if (c.count < 0) fail("{}: expected parts of 0 or more elements, got {}", text, c.count);
  if (reduces(c.kind) && !can_reduce(c.op, c.dtype)) {
    fail<DTypeError>("{}: {} values have no {}; reduce their real and imaginary parts", text, name(c.dtype),
                     kOpNames[static_cast<std::size_t>(c.op)]);
  }
  if (c.kind == Kind::kBroadcast && (c.root < 0 || c.root >= size)) {
    fail("{}: root {} is out of range in a group of {}", text, c.root, size);
  }
  if (c.kind == Kind::kPermute) {
    std::vector<bool> source(size), target(size);
    for (auto [from, to] : c.pairs) {
      if (from < 0 || from >= size || to < 0 || to >= size) {
        fail("{}: the pair ({}, {}) is out of range in a group of {}", text, from, to, size);
      }
      if (source[from] || target[to])
        fail("{}: the pair ({}, {}) uses a rank that an earlier pair uses", text, from, to);
      source[from] = target[to] = true;
    }
  }
}

// Texts of calls go to other processes in lines, of several calls in one message.
constexpr std::size_t kLongestName = 2048;

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::array kNames = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                 "permute",    "broadcast",  "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

Call make_call(const Collective& collective, int size, Fingerprint program, const std::string& program_name,
               std::int64_t index) {
  Call call;
  call.collective = without_groups(collective);
  call.text = shown(describe(collective));
  if (collective.site.known()) call.text += " at " + place_of(collective.site);
  if (!program_name.empty())
    call.text += fmt::format(" (program {}, call {})", shown(program_name, kLongestName), index);
  check(collective, size, call.text);

  const bool reduction = reduces(collective.kind);
  std::string all =
      fmt::format("{} {} {} {} {} {} {} {} {}", program, index, static_cast<int>(collective.kind),
                  reduction ? static_cast<int>(collective.op) : -1, name(collective.dtype), collective.count,
                  collective.partial, collective.kind == Kind::kBroadcast ? collective.root : -1, size);
  for (auto [from, to] : collective.pairs) all += fmt::format(" {}:{}", from, to);
  call.signature = fingerprint(all);

  const std::size_t part =
      collective.kind == Kind::kBarrier ? 0 : collective.count * size_of(collective.dtype);
  const bool gathers = collective.kind == Kind::kAllGather || collective.kind == Kind::kAllToAll;
  const bool splits = collective.kind == Kind::kReduceScatter || collective.kind == Kind::kAllToAll;
  call.input_bytes = splits ? part * size : part;
  call.output_bytes = gathers ? part * size : part;
  if (collective.partial)
    call.output_bytes *= size_of(partial_type(collective.op, collective.dtype)) / size_of(collective.dtype);
  return call;
}

}  // namespace lockstep::collectives
