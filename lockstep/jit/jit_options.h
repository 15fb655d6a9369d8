// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/compiler_options.h"
#include "lockstep/sharding/limits.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/tree/per_leaf.h"

namespace lockstep {

/// A donated argument, with all its arrays or some of them:
///   {.donate_argnums = {0, {1, tree::Rules<bool>{{"moments*", true}, {"*", false}}}}}
struct Donated {
  Donated(int argnum, tree::PerLeaf<bool> arrays = true);

  int argnum;
  tree::PerLeaf<bool> arrays;
};

struct JitOptions {
  /// For each argument of the function, the required sharding of its arrays: one sharding for all of them,
  /// one for each, or tree::Rules by path. nullopt or missing: any sharding. A value that is not in a list
  /// applies to all arguments. Within another traced function it becomes a sharding constraint, as in JAX.
  tree::Prefix<std::optional<Sharding>> in_shardings = {};

  /// The same for each element of the tuple or pair that the function returns (or for its single result): the
  /// sharding of its arrays. nullopt or missing: the partitioner chooses.
  tree::Prefix<std::optional<Sharding>> out_shardings = {};

  /// Arguments whose memory the results may reuse, or some of their arrays. The call deletes them. Within
  /// another traced function nothing is donated, as in JAX, because intermediate values have no memory of
  /// their own.
  std::vector<Donated> donate_argnums = {};

  /// Arguments without arrays that are compiled in: a number among them is a constant, although the function
  /// takes an Array there, and a new value compiles again. Negative numbers count from the last argument.
  std::vector<int> static_argnums = {};

  /// Options of XLA's compiler for this function, as jax.jit's compiler_options:
  ///   {.compiler_options = {{"xla_cpu_multi_thread_eigen", false}, {"xla_dump_to", "/tmp/dump"}}}
  /// A name or value that the compiler does not know is a PjrtError of the first call (or compile()). They
  /// are part of what distinguishes compiled programs, in memory and in the cache on disk. Within another
  /// traced function, which is compiled as one, they are a TraceError, as in JAX.
  CompilerOptions compiler_options = {};

  /// For messages and texts. The place of the call of jit, if empty.
  std::string name = {};

  /// Collectives over the same axes that do not need each other's results are combined into one of at most
  /// this many bytes on a device, so that there are fewer, larger exchanges. 0: none are combined. For a call
  /// within another traced function, the outermost function's option applies.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// On CPUs, a collective of at least this many bytes on a device runs beside computations that do not need
  /// its result: in the lowered program it is started, and awaited by a collective_done. 0: none does. If not
  /// given: 1 MiB if the devices are on several hosts, and if as much is computed meanwhile as an operation
  /// for each byte; none on one host, where collectives need the processors themselves. For a call within
  /// another traced function, the outermost function's option applies.
  std::optional<std::int64_t> overlap_threshold_bytes = {};

  /// A value that a loop uses and does not change, and that each step would gather, is gathered once before
  /// the loop, if all such values together take at most this many bytes on a device. 0: never.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;

  /// The limit, in bytes on a device, for gathered values (such as parameters that are split over the
  /// devices) that are kept for later uses. Beyond it, the values that would be kept longest, such as the
  /// parameters of the first layers for the backward pass, are dropped after a use and gathered again for the
  /// next one. lower().explain() shows which. 0: values are only kept for uses that follow soon.
  std::int64_t kept_gathered_bytes = sharding::kKeptGatheredBytes;

  /// If a device would need more bytes than this for the computation, fewer gathered values are kept than
  /// kept_gathered_bytes allows, and if that is not enough, nothing is gathered before loops. The need is
  /// estimated from the program, before the compiler optimizes it. 0: no limit.
  std::int64_t memory_limit_bytes = 0;
};

}  // namespace lockstep
