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

/// An argument that is donated, with all its arrays or some:
///   {.donate_argnums = {0, {1, tree::Rules<bool>{{"moments*", true}, {"*", false}}}}}
struct Donated {
  Donated(int argnum, tree::PerLeaf<bool> arrays = true) : argnum(argnum), arrays(std::move(arrays)) {}

  int argnum;
  tree::PerLeaf<bool> arrays;
};

struct JitOptions {
  /// For each argument of the function, where the arrays in it must be: one sharding for all of them, one for
  /// each, or tree::Rules by path. nullopt or missing: as they come. One that is not in a list is for all
  /// arguments. Within another traced function it is a sharding constraint on them, as in JAX.
  tree::Prefix<std::optional<Sharding>> in_shardings = {};

  /// The same for each element of the tuple or pair that the function returns (or for its one result): where
  /// the arrays in it shall be. nullopt or missing: as the partitioner finds best.
  tree::Prefix<std::optional<Sharding>> out_shardings = {};

  /// Arguments whose memory the results may take, or which arrays of them. They are deleted by the call.
  /// Within another traced function nothing is donated, as in JAX: what it computes has no memory of its own.
  std::vector<Donated> donate_argnums = {};

  /// Arguments, without arrays, that are compiled in: a number among them is a constant, though the function
  /// takes an Array there, and a new one compiles anew. Negative ones count from the last argument.
  std::vector<int> static_argnums = {};

  /// Options of XLA's compiler for this function, as jax.jit's compiler_options:
  ///   {.compiler_options = {{"xla_cpu_multi_thread_eigen", false}, {"xla_dump_to", "/tmp/dump"}}}
  /// A name or value that the compiler does not know is a PjrtError of the first call (or compile()). They
  /// are part of what distinguishes compiled programs, in memory and in the cache on disk. Within another
  /// traced function, which is compiled as one, they are a TraceError, as in JAX.
  CompilerOptions compiler_options = {};

  /// For messages and texts. The place of the call of jit, if empty.
  std::string name = {};

  /// Collectives over the same axes that do not need each other's results are combined into one, of at most
  /// so many bytes on a device: fewer, larger exchanges. 0: none are. A call within another traced function
  /// goes by the outermost one's.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// What a loop uses and does not change, and each of its steps would gather, is gathered once before the
  /// loop, as far as that takes no more bytes on a device. 0: never.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;

  /// What is gathered (such as parameters that are split over the devices) and kept for later uses takes at
  /// most so many bytes on a device at any time. Beyond it what would be kept longest is dropped after its
  /// use and gathered again for the next one, such as parameters of the first layers for the backward pass.
  /// lower().explain() tells which. 0: nothing is kept but for uses that come soon.
  std::int64_t kept_gathered_bytes = sharding::kKeptGatheredBytes;

  /// Where a device would need more bytes for the computation, less of what is gathered is kept than
  /// kept_gathered_bytes says, and if that is not enough nothing is gathered before loops, as far as it
  /// helps. What it would need is estimated from the program, before the compiler makes less of it. 0: no
  /// limit.
  std::int64_t memory_limit_bytes = 0;
};

}  // namespace lockstep
