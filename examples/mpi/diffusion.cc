// SPDX-License-Identifier: Apache-2.0
// A program that uses MPI and Lockstep in turns: the ranks of MPI_COMM_WORLD are the processes of the job.
#include <lockstep/lockstep.h>
#include <lockstep/mpi.h>

#include <cstdio>
#include <vector>

namespace ls = lockstep;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ls::initialize({.mpi = MPI_COMM_WORLD});
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  // Each rank has a part of a ring, and that of rank 0 is hot. Lockstep computes on the whole ring.
  constexpr int kPart = 4;
  std::vector<float> part(kPart, rank == 0 ? 1.0f : 0.0f);
  const ls::NamedSharding split(ls::make_mesh({{"x", static_cast<int>(ls::devices().size())}}), ls::P("x"));
  const auto step =
      ls::jit([](ls::Array u) { return u + 0.25 * (ls::roll(u, 1) - 2 * u + ls::roll(u, -1)); });
  for (int i = 0; i < 3; ++i) {
    ls::Array u = ls::make_array_from_process_local_data(split, part, {kPart});
    u = step(step(u));
    const auto* values = static_cast<const float*>(u.addressable_shards().front().data);
    part.assign(values, values + kPart);

    // What MPI sums is what Lockstep sums.
    float mine = 0, total = 0;
    for (const float value : part) mine += value;
    MPI_Allreduce(&mine, &total, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const float same = ls::sum(u).item<float>();
    if (rank == 0)
      std::printf("after %d steps the heat is %.3f, summed by MPI, and %.3f, summed by Lockstep\n",
                  2 * (i + 1), total, same);
  }
  ls::shutdown();
  MPI_Finalize();
}
