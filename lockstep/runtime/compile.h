#pragma once

#include <memory>
#include <string>

#include "lockstep/pjrt/executable.h"
#include "lockstep/program/lowering.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

/// The compiled program, which is kept: programs of one text are compiled once in a process. Of a program
/// over several processes the first of each host compiles and the others of the host take its machine code
/// through the job's store; where it does not begin within two seconds of their asking, they compile for
/// themselves. Each compilation is a debug line of the log, with `name` and its time. Throws PjrtError where
/// the compiler refuses, and PeerFailure where the job has failed.
std::shared_ptr<pjrt::Executable> compile(const LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name);

}  // namespace lockstep::runtime
