// SPDX-License-Identifier: Apache-2.0
// ranks MODE: what tests/mpi/mpi_test.py starts by an MPI's launcher.
#include <lockstep/lockstep.h>
#include <lockstep/mpi.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace ls = lockstep;

namespace {

/// Prints the job, and sums that both libraries make in turns.
void compute(const char* name, MPI_Comm comm, int world_rank) {
  ls::initialize({.mpi = comm});
  const auto sum_everywhere = ls::pmap([](ls::Array x) { return ls::psum(x, "i"); });
  const ls::Array mine = ls::full({1}, static_cast<float>(world_rank));
  float by_mpi = 0, by_lockstep = 0;
  for (int i = 0; i < 20; ++i) {
    const float value = static_cast<float>(world_rank);
    by_lockstep += sum_everywhere(mine).to_host<float>().front();
    float sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_FLOAT, MPI_SUM, comm);
    by_mpi += sum;
  }
  std::printf("%s: rank %d is process %d of %d, sums %g %g\n", name, world_rank, ls::process_index(),
              ls::process_count(), static_cast<double>(by_lockstep), static_cast<double>(by_mpi));
  std::fflush(stdout);
  ls::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "before") ls::initialize({.mpi = MPI_COMM_WORLD});
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (mode == "world") {
      compute("world", MPI_COMM_WORLD, rank);
    } else if (mode == "halves") {  // each is a job, in the other order of its ranks
      MPI_Comm half = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
      compute(rank % 2 == 0 ? "even" : "odd", half, rank);
      MPI_Comm_free(&half);
    } else if (mode == "turns") {  // one job after the other, with other members
      compute("world", MPI_COMM_WORLD, rank);
      MPI_Comm half = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
      compute("half", half, rank);
      MPI_Comm_free(&half);
      compute("again", MPI_COMM_WORLD, rank);
    } else if (mode == "some") {
      MPI_Comm some = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &some);
      if (some != MPI_COMM_NULL) compute("some", some, rank);
    } else if (mode == "null") {
      ls::initialize({.mpi = MPI_COMM_NULL});
    } else if (mode == "absent") {
      if (rank != 1)
        ls::initialize({.mpi = MPI_COMM_WORLD, .initialization_timeout = std::chrono::seconds(1)});
      MPI_Barrier(MPI_COMM_WORLD);
    } else if (mode == "listen") {
      ls::initialize({.mpi = MPI_COMM_WORLD, .coordinator_bind_address = "192.0.2.1:1"});
    }
    MPI_Finalize();
  } catch (const ls::InitializationError& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    int initialized = 0;
    MPI_Initialized(&initialized);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(300));  // MPICH's launcher drops what it has not yet read
    if (initialized != 0) MPI_Abort(MPI_COMM_WORLD, 3);
    return 3;
  }
}
