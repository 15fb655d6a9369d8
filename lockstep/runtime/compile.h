#pragma once

#include <memory>
#include <string>

#include "lockstep/pjrt/executable.h"
#include "lockstep/program/lowering.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// The compiled program. Of the programs of one text one is compiled, and kept as long as it is among the
/// max_kept() used last; who asks for it meanwhile in another thread waits, and other programs are compiled
/// side by side. Of a program over several processes the first of each host compiles and the others of the
/// host take its machine code through the job's store; where it does not begin within two seconds of their
/// asking, or has taken it back, for the store holds the last max_kept() only, they compile for themselves.
/// Each compilation is a debug line of the log, with `name` and its time. Throws PjrtError where the compiler
/// refuses, and PeerFailure where the job has failed.
std::shared_ptr<pjrt::Executable> compile(const LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name);

/// Forgets all compiled programs. Who holds one may go on with it.
void forget_compiled();

}  // namespace lockstep::runtime
