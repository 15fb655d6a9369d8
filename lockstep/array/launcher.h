// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/lowered_computation.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/program/lower.h"
#include "lockstep/runtime/launch_agreement.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::internal {

/// Runs a computation on those devices of its mesh that belong to this process.
class Launcher {
 public:
  /// Registers its collectives, as long as it lives. With `only_collectives`, which are all that it does, it
  /// needs no executable. `computation` must outlive it.
  explicit Launcher(const LoweredComputation& computation,
                    std::optional<ir::CollectiveSteps> only_collectives = {});

  /// Before the first run, where it needs one.
  void set_executable(std::shared_ptr<pjrt::Executable> executable) { executable_ = std::move(executable); }
  const pjrt::Executable* executable() const { return executable_.get(); }

  bool only_collectives() const { return only_collectives_.has_value(); }
  bool spans_processes() const { return spans_processes_; }
  int job() const { return job_; }  ///< Of its devices.
  std::size_t num_devices() const { return locals_.size(); }

  /// The memory that it needs on each device.
  pjrt::MemoryStats memory_stats() const;

  /// Runs it on all of the devices. `results` becomes all outputs of the first device, then those of the
  /// next. Throws as Computation::run.
  void run(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
           std::vector<pjrt::Buffer>& results) const;

 private:
  struct Local {
    const pjrt::Device* device;
    int position;
    PJRT_Buffer* position_buffer;
  };

  void launch_all(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                  std::span<pjrt::Buffer> results) const;
  /// What to throw for the error that is being handled, of a launch here, or on all devices if it is null.
  std::exception_ptr cause_of_failure(const Local* here) const;
  /// Throws the error of a call of the host in the last launch on a device here, if there was one.
  void rethrow_failed_check(const Local& here) const;
  /// Ends the job if other devices wait in collectives for a device that does not reach them.
  void strand_others(const std::exception_ptr& cause) const;
  void launch_replicas(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                       std::span<pjrt::Buffer> results) const;
  void launch(std::size_t local, std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
              std::span<pjrt::Buffer> results) const;
  void launch_collectives(const Local& here, std::size_t local, std::span<const Array* const> arguments,
                          std::span<pjrt::Buffer> results) const;

  const LoweredComputation& computation_;
  std::optional<ir::CollectiveSteps> only_collectives_;
  std::shared_ptr<pjrt::Executable> executable_;
  std::shared_ptr<const void> registered_;  ///< null without custom calls into the registry
  std::vector<Local> locals_;
  std::vector<int> local_devices_;   ///< of each of locals_, which local device it is
  std::vector<int> launch_devices_;  ///< the same, ascending; none where it has no collectives
  int job_ = 0;
  bool spans_processes_ = false;
  bool meets_processes_ = false;  ///< some of its collectives are over devices of several processes

  // For the recorder.
  watch::TextId recorded_name_ = 0;
  watch::TextId recorded_meeting_ = 0;  ///< where the compiler's own collectives meet other processes, else 0
  watch::ProgramTexts recorded_;
  watch::MeshPlace* launches_ = nullptr;  ///< where it spans processes

  runtime::LaunchAgreement::Group* agreement_ = nullptr;  ///< where the processes must agree on its launches
};

}  // namespace lockstep::internal
