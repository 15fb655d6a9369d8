// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/computation_text.h"
#include "lockstep/array/data.h"
#include "lockstep/array/lowered_computation.h"
#include "lockstep/base/compiler_options.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/limits.h"

namespace lockstep::internal {

struct ComputationOptions {
  /// The required sharding of each input; if not given, the input keeps its own.
  std::vector<std::optional<Sharding>> in_shardings = {};

  /// The sharding of each output; if not given, the partitioner decides.
  std::vector<std::optional<Sharding>> out_shardings = {};

  /// For each input, whether the caller donates its memory.
  std::vector<bool> donated = {};

  /// The largest size of combined collectives; 0: none are combined. Ignored if the compiler makes the
  /// collectives.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// The smallest size of collectives that run beside computations, as JitOptions has it.
  std::optional<std::int64_t> overlap_threshold_bytes = {};

  /// As in sharding::PartitionOptions.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;
  std::int64_t kept_gathered_bytes = sharding::kKeptGatheredBytes;
  std::int64_t memory_limit_bytes = 0;

  /// An operation outside of jit: a plan for described devices counts it, and does not compile it.
  bool is_operation = false;

  /// For the compiler, before what the platform tells it.
  CompilerOptions compiler_options = {};

  /// It is only lowered: ensure_compiled() or the first run compiles it. A plan for described devices
  /// compiles at once.
  bool only_lower = false;
};

/// A program compiled for arguments of certain types. It runs asynchronously if the plugin does; on CPU it
/// runs in the call.
class Computation {
 public:
  /// Partitions over the mesh of the arguments (of the options, where they name one), lowers and compiles.
  /// Throws ShardingError if arguments or options are over different meshes or devices, or the mesh does not
  /// divide a size.
  static std::shared_ptr<const Computation> compile(ir::Program program,
                                                    std::span<const ArrayType* const> arguments,
                                                    const ComputationOptions& options);

  /// For a program that already describes each device of `mesh`, as pmap traces it. Inputs and outputs are
  /// over `local`, the part of the mesh on this process, as the specs say.
  static std::shared_ptr<const Computation> compile_per_device(ir::Program program,
                                                               std::span<const ArrayType* const> arguments,
                                                               const Mesh& mesh, const Mesh& local,
                                                               const std::vector<PartitionSpec>& in_specs,
                                                               const std::vector<PartitionSpec>& out_specs);

  ~Computation();
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  /// Launches it on all local devices that take part. The arguments must have the types that it was compiled
  /// for. Throws PeerFailure or DivergenceError if another process fails, PjrtError if the plugin does; with
  /// debug_nans or debug_infs FloatingPointError, on all processes of its mesh, if a result has a NaN or
  /// infinity anywhere. In that mode nothing is donated before the check.
  std::vector<Array> run(std::span<const Array* const> arguments) const;

  /// Launches nothing, if the devices are described: the results have no elements.
  std::vector<Array> run_described(std::span<const Array* const> arguments) const;

  /// The last inputs, placed as the computation needs them, so that they are moved once and not in each run.
  std::vector<Array> placed(std::vector<Array> last) const;

  const LoweredComputation& lowered() const;
  const std::string& name() const { return lowered().name; }
  const ComputationText& text() const { return lowered().text; }

  /// Throws ShardingError if one of the arguments has another type than the one for which it was compiled:
  /// the same axes over other devices.
  void check_types(std::span<const Array* const> arguments) const;

  /// Its figures of memory are the compiler's, and 0 before it has compiled.
  Cost cost() const;

  /// The times of the stages and the memory that it needs: "partitioned in 0.001 s, lowered in 0.002 s,
  /// compiled in 0.345 s; for each device 4 KiB of arguments, 1 KiB of results and 2 KiB of its own".
  std::string how_compiled() const;

  bool is_compiled() const;

  /// Compiles it where it is only lowered; by one of the threads that ask. Every process of its mesh should
  /// ask, for one compiles for all. Throws what runtime::compile throws; then the next call tries again.
  void ensure_compiled() const;

  /// Its machine code, for another process. Throws Error if that could not use it, because it calls functions
  /// of this process or is checked for NaNs; and if it is not compiled.
  std::string machine_code() const;

  /// The computation whose machine code another process has given. Throws PjrtError if the plugin refuses it.
  static std::shared_ptr<const Computation> load(LoweredComputation lowered, std::string_view code);

 private:
  struct Impl;
  explicit Computation(std::unique_ptr<Impl> impl);
  static std::shared_ptr<const Computation> finish(std::unique_ptr<Impl> impl, const ir::Program& written,
                                                   Fingerprint salt, sharding::CombineOptions combining = {},
                                                   std::optional<std::int64_t> overlap_threshold_bytes = {});
  void compile_lowered() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::internal
