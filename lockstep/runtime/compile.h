#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/pjrt/executable.h"
#include "lockstep/program/lowering.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// How compile() got a program.
struct CompileReport {
  enum class From : std::uint8_t {
    kMemory,    ///< this process had it
    kCache,     ///< the compilation cache on disk
    kProcess,   ///< another process of the job
    kCompiler,  ///< XLA
  };
  From from = From::kMemory;
  int process = -1;         ///< for kProcess: the number of the process
  bool not_cached = false;  ///< for kCompiler: the cache on disk is used, and did not have it
  std::chrono::duration<double> time{0};

  /// "compiled by XLA in 0.123 s, not being in the compilation cache".
  std::string to_string() const;
};

/// The compiled program. Each program text is compiled once, and kept while it is among the max_kept() most
/// recently used. Another thread that needs the same text blocks until it is compiled; different programs are
/// compiled concurrently. A program over several processes is compiled by one of them, and the others take
/// its machine code (SharedCode); if it does not arrive, they compile it themselves. Each compilation writes
/// a debug line with `name` and its time to the log. `report` gets the outcome. Throws PjrtError if the
/// compiler fails, and PeerFailure if the job has failed.
std::shared_ptr<pjrt::Executable> compile(const LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name, CompileReport* report = nullptr);

/// Forgets all compiled programs. Programs that are in use stay valid.
void forget_compiled();

}  // namespace lockstep::runtime
