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
#include "lockstep/program/lowering.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// A collective of a planned computation.
struct PlannedCollective {
  std::string kind;               ///< "all-reduce"
  std::vector<std::string> axes;  ///< of the mesh
  std::int64_t num_devices = 1;   ///< in one group
  std::int64_t bytes = 0;         ///< of each device, each time
  std::optional<std::int64_t> times = 1;
  bool crosses_hosts = false, crosses_slices = false;
  std::string site;
};

/// A value that takes much of a device's memory.
struct LargeValue {
  std::int64_t bytes = 0;
  std::string type;       ///< "f32[1024,4096]", of the part that each device has
  std::string operation;  ///< that made it, or "argument 3"
  std::string site;       ///< the user's line; empty of arguments
};

/// A computation that was compiled for described devices. What is said of bytes, operations and time is of
/// each device.
struct PlannedComputation {
  std::string name, site, mesh;
  std::int64_t num_devices = 1;
  pjrt::MemoryStats memory;
  std::map<std::string, double>
      cost;  ///< as pjrt::CompiledProgram::cost_analysis gives it: bodies of loops once
  bool has_loops = false;
  double counted_flops = 0;  ///< as ProgramCost counts them: bodies of loops as often as they run
  double compile_seconds = 0;
  std::vector<PlannedCollective> collectives;
  std::vector<LargeValue> largest;  ///< the largest first

  /// The compiler's own words where the program does not fit into a device's memory; empty where it does.
  std::string does_not_fit;

  std::atomic<std::int64_t> calls = 0;  ///< that the program has made of it

  /// The bytes of memory that it needs at a time; 0 where it was not compiled.
  std::int64_t peak_bytes() const;
};

/// What a program does on devices that are only described. Functions may be called from any thread.
///
/// Where LOCKSTEP_PLAN_FILE names a file, the plan is written there, as JSON (docs/plan.md), with each
/// computation that is added, and at the end.
class Plan {
 public:
  /// `client` compiles where the devices have no topology of the plugin's, as CPUs.
  Plan(std::string topology, const Platform& platform, std::shared_ptr<pjrt::Client> client,
       DescribedDevices devices);

  /// Compiles a program for the devices of the mesh, with these options before the platform's, and fills in
  /// what the compiler says. Throws PjrtError where it refuses, but for want of memory.
  void compile(PlannedComputation& computation, const LoweredProgram& program, const Mesh& mesh,
               const CompilerOptions& compiler_options) const;

  void add(std::shared_ptr<PlannedComputation> computation);
  void note_call(PlannedComputation& computation) { ++computation.calls; }

  /// An operation outside of jit, which is not compiled, was called.
  void note_operation() { ++operations_; }

  /// In the order in which they were first called.
  std::vector<std::shared_ptr<const PlannedComputation>> computations() const;
  std::int64_t operations() const { return operations_; }

  /// An element of `what` is read: throws DescribedError. The plan ends here.
  [[noreturn]] void end_at_read(const std::string& what);

  /// The sizes of the axes of a mesh over all devices: those given, or, where LOCKSTEP_PLAN_MESH names the
  /// same axes, "data=4,model=2", its sizes.
  std::vector<std::pair<std::string, std::int64_t>> axes_to_try(
      std::vector<std::pair<std::string, std::int64_t>> given);

  std::string to_json() const;

  /// Writes the file, where one is asked for.
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
