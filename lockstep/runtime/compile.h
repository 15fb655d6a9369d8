// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/compiler_options.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/program/lower.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// How compile() got a program.
struct CompileReport {
  enum class From : std::uint8_t {
    kMemory,    ///< this process had it
    kCache,     ///< the compilation cache on disk
    kProcess,   ///< another process of the job
    kFile,      ///< a file that load_executable got
    kCompiler,  ///< XLA
    kNowhere,   ///< it only does collectives, and is not compiled
  };
  From from = From::kMemory;
  int process = -1;         ///< for kProcess: the number of the process
  bool not_cached = false;  ///< for kCompiler: the cache on disk is used, and did not have it
  std::chrono::duration<double> time{0};

  /// "compiled by XLA in 0.123 s, not being in the compilation cache".
  std::string to_string() const;
};

/// The compiled program. Of the programs of one text one is compiled, and kept as long as it is among the
/// max_kept() used last; who asks for it meanwhile in another thread waits, and other programs are compiled
/// side by side. Of a program over several processes one compiles, and the others take its machine code, as
/// SharedCode says; where that does not come, they compile for themselves.
/// Each compilation is a debug line of the log, with `name` and its time; `report` is told how it went.
/// `options` go before what the platform tells the compiler; programs with others are others.
/// Throws PjrtError where the compiler refuses, naming the options if there are any, and PeerFailure where
/// the job has failed.
std::shared_ptr<pjrt::Executable> compile(const ir::LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name, CompileReport* report = nullptr,
                                          const CompilerOptions& options = {});

/// The program whose machine code another process, or plan, has compiled for this mesh. It is not kept for
/// others. Throws PjrtError if the plugin refuses it.
std::shared_ptr<pjrt::Executable> load_code(const ir::LoweredProgram& program, const Mesh& mesh,
                                            std::string_view code);

/// The machine code of a program that was compiled or loaded. Compiles it again if the plugin cannot write
/// again what it has loaded.
std::string machine_code(const pjrt::Executable& executable, const ir::LoweredProgram& program,
                         const CompilerOptions& options);

/// Where this process's machine code can be used.
CodeIdentity code_identity();

/// Forgets all compiled programs. Programs that are in use stay valid.
void forget_compiled();

}  // namespace lockstep::runtime
