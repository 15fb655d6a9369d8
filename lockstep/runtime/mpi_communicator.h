// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "lockstep/base/durations.h"
#include "lockstep/base/function.h"

namespace lockstep {

/// Makes an MpiCommunicator of an MPI's type of communicators. <lockstep/mpi.h> defines it for MPI_Comm.
template <class Communicator>
struct MpiCommunicatorFrom;

/// The ranks of an MPI communicator, which `initialize({.mpi = comm})` makes the processes of a job. The
/// library itself knows no MPI: <lockstep/mpi.h> gives these functions, and the program links the MPI.
/// `initialize()` calls them on its own thread, on all ranks in the same order.
struct MpiCommunicator {
  int rank = 0;
  int size = 1;

  /// Gives every rank the `bytes` bytes of each rank, in the order of the ranks, in `all`. Throws
  /// InitializationError if some rank has not come after the timeout.
  std::function<void(const void* mine, void* all, std::size_t bytes, std::chrono::seconds timeout)>
      all_gather;

  /// Gives every rank the `bytes` bytes that rank 0 has. Throws as all_gather does.
  std::function<void(void* data, std::size_t bytes, std::chrono::seconds timeout)> broadcast;

  MpiCommunicator() = default;

  /// From an MPI_Comm. Needs <lockstep/mpi.h>.
  template <class Communicator>
  requires requires(const Communicator& comm) { MpiCommunicatorFrom<Communicator>()(comm); }
  MpiCommunicator(const Communicator& comm) : MpiCommunicator(MpiCommunicatorFrom<Communicator>()(comm)) {}
};

}  // namespace lockstep
