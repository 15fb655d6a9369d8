// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `initialize({.mpi = comm})` for programs that use MPI themselves (docs/mpi.md). The program's own mpi.h is
/// included, and its MPI is linked; Lockstep's libraries need none.

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/runtime/mpi_communicator.h"

namespace lockstep {

template <>
struct MpiCommunicatorFrom<MPI_Comm> {
  /// Throws InitializationError before MPI_Init and after MPI_Finalize, for MPI_COMM_NULL, and for an
  /// intercommunicator. Communicates nothing. The communicator must live until `initialize()` returns.
  MpiCommunicator operator()(MPI_Comm comm) const {
    int initialized = 0, finalized = 0, between_groups = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized == 0) refuse("MPI_Init has not been called: call it before initialize()");
    if (finalized != 0) refuse("MPI_Finalize has been called: call initialize() before it");
    if (comm == MPI_COMM_NULL) refuse("it is MPI_COMM_NULL: only ranks of a communicator call initialize()");
    MPI_Comm_test_inter(comm, &between_groups);
    if (between_groups != 0) refuse("it is an intercommunicator: merge its groups by MPI_Intercomm_merge");

    MpiCommunicator ranks;
    MPI_Comm_rank(comm, &ranks.rank);
    MPI_Comm_size(comm, &ranks.size);
    ranks.all_gather = [comm](const void* mine, void* all, std::size_t bytes, std::chrono::seconds timeout) {
      MPI_Request request;
      const int count = static_cast<int>(bytes);
      MPI_Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm, &request);
      wait(request, comm, timeout);
    };
    ranks.broadcast = [comm](void* data, std::size_t bytes, std::chrono::seconds timeout) {
      MPI_Request request;
      MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, comm, &request);
      wait(request, comm, timeout);
    };
    return ranks;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw InitializationError("[initialize] the communicator in mpi cannot be used: " + what);
  }

  static void wait(MPI_Request request, MPI_Comm comm, std::chrono::seconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (int done = 0; done == 0;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) return;
      if (std::chrono::steady_clock::now() >= end) {
        int rank = 0, size = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        throw InitializationError("[initialize] rank " + std::to_string(rank) + " of " +
                                  std::to_string(size) + " has waited for " +
                                  std::to_string(timeout.count()) +
                                  " s: not all ranks of the communicator in mpi have called initialize()");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
};

}  // namespace lockstep
