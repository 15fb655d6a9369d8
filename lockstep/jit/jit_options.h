#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/computation.h"

namespace lockstep {

struct JitOptions {
  /// For each argument of the function, where all arrays in it must be; nullopt or missing: as they come.
  /// Within another traced function it is a sharding constraint on them, as in JAX.
  std::vector<std::optional<Sharding>> in_shardings = {};

  /// For each element of the tuple or pair that the function returns (or for its one result), where all
  /// arrays in it shall be; nullopt or missing: as the partitioner finds best. Within another traced function
  /// it is a sharding constraint on them, as in JAX.
  std::vector<std::optional<Sharding>> out_shardings = {};

  /// Arguments whose memory the results may take. They are deleted by the call. Within another traced
  /// function nothing is donated, as in JAX: what it computes has no memory of its own.
  std::vector<int> donate_argnums = {};

  /// Arguments, without arrays, that are compiled in: a number among them is a constant, though the function
  /// takes an Array there, and a new one compiles anew. Negative ones count from the last argument.
  std::vector<int> static_argnums = {};

  /// For messages and texts. The place of the call of jit, if empty.
  std::string name = {};

  /// Collectives over the same axes that do not need each other's results are combined into one, of at most
  /// so many bytes on a device: fewer, larger exchanges. 0: none are. A call within another traced function
  /// goes by the outermost one's.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// What a loop uses and does not change, and each of its steps would gather, is gathered once before the
  /// loop, as far as that takes no more bytes on a device. 0: never.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;

  /// Where a device would need more bytes for the computation, what is gathered (such as parameters that are
  /// split over the devices) is dropped after its use and gathered again for a later one, and no collectives
  /// are combined, if that takes less.
  /// What it would need is estimated from the program, before the compiler makes less of it. 0: no limit.
  std::int64_t memory_limit_bytes = 0;
};

}  // namespace lockstep
