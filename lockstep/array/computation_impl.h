// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/computation.h"
#include "lockstep/array/launcher.h"
#include "lockstep/array/lowered_computation.h"
#include "lockstep/array/result_check.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/plan.h"

namespace lockstep::internal {

/// The members of a computation: computation.cc makes it, computation_run.cc calls it.
struct Computation::Impl {
  LoweredComputation lowered;
  bool moves = false, donates = false;  ///< some of its inputs
  std::optional<ResultCheck> check;
  std::string calls_here;               ///< an operation that calls this process; empty if there is none
  std::vector<ir::OpParams> callbacks;  ///< which hold the functions that it calls
  std::chrono::duration<double> partitioning{0}, lowering{0};
  CompilerOptions compiler_options;
  bool is_operation = false, only_lower = false;

  // One of them, but for an operation on described devices.
  std::optional<Launcher> launcher;
  std::shared_ptr<runtime::PlannedComputation> planned;

  // Filled in by compiling; the launcher's executable and `report` are to be read where is_compiled is set.
  std::atomic<bool> is_compiled = false;
  std::mutex compiling;
  bool to_compile = false;
  runtime::CompileReport report;

  /// For a computation whose inputs are complete.
  void note_inputs();

  /// The positions, as the executable counts them, of donated arguments whose memory other arrays share.
  /// Throws Error if one of them is given twice.
  std::vector<std::int64_t> not_to_donate(std::span<const Array* const> given,
                                          std::span<const Array* const> arguments) const;

  /// Leaves the donated arrays without their memory.
  void take_donated(std::span<const Array* const> given) const;
};

}  // namespace lockstep::internal
