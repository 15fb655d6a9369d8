// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/computation.h"
#include "lockstep/array/result_check.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/lowering.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::internal {

/// The members of a computation: computation.cc makes it, computation_run.cc launches it.
struct Computation::Impl {
  std::string name;
  ComputationText text;
  ir::ProgramCost counted;
  Fingerprint fingerprint = 0;
  bool takes_position = false;
  ir::CodeTraits traits;
  bool has_collectives = false;  ///< custom calls into the registry
  bool replicated = false;       ///< compiled for all devices at once, with collectives of the platform's own
  bool spans_processes = false;
  bool meets_processes = false;  ///< some of its collectives are over devices of several processes
  std::optional<ResultCheck> check;
  std::chrono::duration<double> partitioning{0}, lowering{0};
  CompilerOptions compiler_options;
  bool only_lower = false;

  // Filled in by compiling; to be read where is_compiled is set.
  std::atomic<bool> is_compiled = false;
  std::mutex compiling;
  std::optional<std::pair<ir::LoweredProgram, Mesh>> to_compile;  ///< its text is that in `text`
  runtime::CompileReport report;
  std::shared_ptr<pjrt::Executable> executable;  ///< null for described devices, where it has none here, and
                                                 ///< with only_collectives
  std::optional<ir::CollectiveSteps> only_collectives;  ///< what it does, if it needs no executable

  bool is_operation = false;
  std::shared_ptr<runtime::PlannedComputation> planned;  ///< for described devices

  // For the recorder.
  watch::TextId recorded_name = 0;
  watch::TextId recorded_meeting = 0;  ///< Where the compiler's own collectives meet other processes, else 0.
  watch::ProgramTexts recorded;
  watch::MeshPlace* launches = nullptr;                  ///< Where it spans processes.
  runtime::LaunchAgreement::Group* agreement = nullptr;  ///< Where the processes must agree on its launches.

  std::shared_ptr<const void> registered;  ///< its collectives, as long as it lives
  std::vector<ir::OpParams> callbacks;     ///< which hold the functions that it calls

  // For a file that another process loads.
  std::optional<Mesh> mesh;
  std::vector<collectives::Collective> collectives;
  std::string signature;                 ///< for messages, "step(f32[8])"
  std::string calls_here;                ///< an operation that calls this process; empty if there is none
  std::vector<std::string> ffi_targets;  ///< the user's handlers that it calls

  std::vector<ArrayTypeRef> inputs, outputs;
  std::vector<ArrayTypeRef> moved;  ///< of inputs that are not where the computation is: what they become
  bool moves = false;
  std::vector<bool> donated;
  bool donates = false;

  struct Local {
    const pjrt::Device* device;
    int position;
    PJRT_Buffer* position_buffer;
  };
  std::vector<Local> locals;
  std::vector<int> local_devices;   ///< of each of locals, which local device it is
  std::vector<int> launch_devices;  ///< the same, ascending; none where it has no collectives

  /// The positions, as the executable counts them, of donated arguments whose memory other arrays share.
  /// Throws Error if one of them is given twice.
  std::vector<std::int64_t> not_to_donate(std::span<const Array* const> given,
                                          std::span<const Array* const> arguments) const;

  /// The memory that only_collectives needs on each device.
  pjrt::MemoryStats memory_of_collectives() const;

  /// Leaves the donated arrays without their memory.
  void take_donated(std::span<const Array* const> given) const;

  /// Makes ready for launches on the local devices of its mesh.
  void take_place();

  /// On all local devices.
  void launch_all(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                  std::span<pjrt::Buffer> results) const;
  /// Ends the job if other devices wait in collectives for a device that does not reach them.
  void strand_others(const std::exception_ptr& cause) const;
  void launch_replicas(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                       std::span<pjrt::Buffer> results) const;
  void launch(std::size_t local, std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
              std::span<pjrt::Buffer> results) const;
  /// The steps of `only_collectives`.
  void launch_collectives(const Local& here, std::size_t local, std::span<const Array* const> arguments,
                          std::span<pjrt::Buffer> results) const;
};

}  // namespace lockstep::internal
