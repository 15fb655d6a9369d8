#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/data.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/limits.h"

namespace lockstep::internal {

struct ComputationOptions {
  /// For each input, where it must be; where not given, it is taken as it is.
  std::vector<std::optional<Sharding>> in_shardings = {};

  /// For each output, where it shall be; where not given, the partitioner decides.
  std::vector<std::optional<Sharding>> out_shardings = {};

  /// For each input, whether the caller gives its memory up.
  std::vector<bool> donated = {};

  /// How large collectives get by being combined; 0: they are not. Not looked at where the compiler does
  /// them.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// As sharding::PartitionOptions has them.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;
  std::int64_t memory_limit_bytes = 0;

  /// An operation outside of jit: a plan for described devices counts it, and does not compile it.
  bool is_operation = false;
};

/// What a computation is made of, as text.
struct ComputationText {
  std::string program;      ///< as traced
  std::string partitioned;  ///< what each device does, with each collective and its bytes
  std::string stablehlo;    ///< what the compiler is given

  /// Each collective that a device does, in order: its axes, bytes and the user's line that caused it.
  std::vector<sharding::CommunicationLine> communication() const { return collectives; }
  std::vector<sharding::CommunicationLine> collectives;

  /// The same as text, each with its reason: what is brought from which split to which, and what the other
  /// way would have taken.
  std::string explain() const { return sharding::explain(collectives); }
};

/// What one call of a computation costs each device.
struct Cost {
  double flops = 0;           ///< of its program, as ProgramCost counts them
  double bytes_accessed = 0;  ///< the same
  std::int64_t communicated_bytes =
      0;  ///< of all collectives that communication() lists, as often as they run
  std::int64_t argument_bytes = 0, output_bytes = 0,
               temporary_bytes = 0;  ///< of memory, by the compiler's plan
};

/// A program compiled for arguments of certain types. Running it is asynchronous where the plugin is: on CPU
/// it happens in the call.
class Computation {
 public:
  /// Partitions over the mesh of the arguments (of the options, where they name one), lowers and compiles.
  /// Throws ShardingError where arguments or options are over different meshes or devices, or a size is not
  /// divided.
  static std::shared_ptr<const Computation> compile(Program program,
                                                    std::span<const ArrayType* const> arguments,
                                                    const ComputationOptions& options);

  /// Of a program that is already what each device of `mesh` does, as pmap traces it. Inputs and outputs are
  /// over `local`, the part of the mesh that is of this process, as the specs say.
  static std::shared_ptr<const Computation> compile_per_device(Program program,
                                                               std::span<const ArrayType* const> arguments,
                                                               const Mesh& mesh, const Mesh& local,
                                                               const std::vector<PartitionSpec>& in_specs,
                                                               const std::vector<PartitionSpec>& out_specs);

  ~Computation();
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  /// Launches it on all local devices that take part. The arguments must have the types that it was compiled
  /// for. Throws PeerFailure and DivergenceError where another process fails it, PjrtError where the plugin
  /// does; and with debug_nans or debug_infs FloatingPointError, on all processes of its mesh, where a result
  /// holds one anywhere. Nothing is donated then before that is known.
  std::vector<Array> run(std::span<const Array* const> arguments) const;

  /// Launches nothing, where the devices are described: the results have no elements.
  std::vector<Array> run_described(std::span<const Array* const> arguments) const;

  /// The last inputs, where the computation needs them: what would be moved in each run is moved once.
  std::vector<Array> placed(std::vector<Array> last) const;

  const ComputationText& text() const;
  Cost cost() const;

  /// How long what took, and what memory it needs: "partitioned in 0.001 s, lowered in 0.002 s, compiled in
  /// 0.345 s; for each device 4 KiB of arguments, 1 KiB of results and 2 KiB of its own".
  std::string how_compiled() const;

 private:
  struct Impl;
  explicit Computation(std::unique_ptr<Impl> impl);
  static std::shared_ptr<const Computation> finish(
      std::unique_ptr<Impl> impl, const Program& written, const AxisEnv& axes, const Mesh& mesh,
      Fingerprint salt, sharding::CommunicationReasons reasons = {},
      std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::internal
