// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/coordination/server/server.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// Completes the place of a process whose job is an MPI communicator of several ranks: the coordinator's
/// address, the job's id and secret, and the process's number on its host. Rank 0 starts the coordinator, at
/// a port that the kernel chooses, and gets it; the other ranks get null.
///
/// Blocks until all ranks have come. Throws InitializationError, on all ranks with the words of rank 0, if
/// that one cannot listen, and after the initialization timeout.
std::unique_ptr<coordination::CoordinationServer> meet_by_mpi(Settings& settings);

}  // namespace lockstep::runtime
