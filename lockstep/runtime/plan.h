// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/compiler_options.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/compiled_program.h"
#include "lockstep/program/large_values.h"
#include "lockstep/program/lower.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// A collective of a planned computation.
struct PlannedCollective {
  std::string kind;               ///< "all-reduce"
  std::vector<std::string> axes;  ///< mesh axes
  std::int64_t num_devices = 1;   ///< in one group
  std::int64_t bytes = 0;         ///< on each device, each time
  std::optional<std::int64_t> times = 1;
  bool crosses_hosts = false, crosses_slices = false;
  std::string site;
};

/// A computation that was compiled for described devices. Bytes, operations and times are those of each
/// device.
struct PlannedComputation {
  std::string name, site, mesh;
  std::int64_t num_devices = 1;
  pjrt::MemoryStats memory;
  std::map<std::string, double>
      cost;  ///< as returned by pjrt::CompiledProgram::cost_analysis: bodies of loops count once
  bool has_loops = false;
  double counted_flops = 0;  ///< as counted by ProgramCost: bodies of loops count as often as they run
  double compile_seconds = 0;
  std::shared_ptr<const pjrt::CompiledProgram> program;  ///< null if it does not fit
  std::vector<PlannedCollective> collectives;
  std::vector<ir::LargeValue> largest;  ///< in descending order

  /// The compiler's message if the program does not fit into a device's memory; empty if it fits.
  std::string does_not_fit;

  std::atomic<std::int64_t> calls = 0;  ///< the number of times that the program has called it

  /// The peak of the memory that it needs, in bytes; 0 if it was not compiled.
  std::int64_t peak_bytes() const;
};

/// The computations of a program on described devices. Functions may be called from any thread.
///
/// If LOCKSTEP_PLAN_FILE names a file, the plan is written there as JSON (docs/plan.md), after each added
/// computation and at the end.
class Plan {
 public:
  /// `client` compiles if the plugin has no topology for the devices, as for CPUs.
  Plan(std::string topology, const Platform& platform, std::shared_ptr<pjrt::Client> client,
       DescribedDevices devices);

  /// Compiles a program for the devices of the mesh, with these options before the platform's, and fills in
  /// what the compiler says. Throws PjrtError where it refuses, but for want of memory.
  void compile(PlannedComputation& computation, const ir::LoweredProgram& program, const Mesh& mesh,
               const CompilerOptions& compiler_options) const;

  /// Where what it compiles can be used.
  CodeIdentity code_identity() const;

  void add(std::shared_ptr<PlannedComputation> computation);
  void note_call(PlannedComputation& computation) { ++computation.calls; }

  /// Counts the call of an operation outside of jit, which is not compiled.
  void note_operation() { ++operations_; }

  /// In the order of their first calls.
  std::vector<std::shared_ptr<const PlannedComputation>> computations() const;
  std::int64_t operations() const { return operations_; }

  /// Called when an element of `what` is read: ends the plan and throws DescribedError.
  [[noreturn]] void end_at_read(const std::string& what);

  /// The sizes of the axes of a mesh over all devices: those given, or, if LOCKSTEP_PLAN_MESH has the same
  /// axes ("data=4,model=2"), its sizes.
  std::vector<std::pair<std::string, std::int64_t>> axes_to_try(
      std::vector<std::pair<std::string, std::int64_t>> given);

  std::string to_json() const;

  /// Writes the file, if LOCKSTEP_PLAN_FILE is set.
  void write() const;

 private:
  const std::string topology_;
  const Platform& platform_;
  const std::shared_ptr<pjrt::Client> client_;
  const DescribedDevices devices_;
  std::string file_;
  std::vector<std::pair<std::string, std::int64_t>> mesh_to_try_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<PlannedComputation>> computations_;
  std::atomic<std::int64_t> operations_ = 0;
  std::atomic<bool> tried_mesh_ = false;
  std::string ended_at_;
};

}  // namespace lockstep::runtime
