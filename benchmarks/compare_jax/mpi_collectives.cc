// SPDX-License-Identifier: Apache-2.0
// MPI's side of the comparison: collectives of all processes. --kinds KIND,... --sizes BYTES:CALLS,... with
// BYTES for each process. As an MPI program does, it gives every call the same output. compare.py compiles
// it.

#include <mpi.h>

#include <cstring>
#include <sstream>

#include "benchmarks/compare_jax/measure.h"

namespace {

int own_rank = 0, count = 1;

void run(const std::string& kind, const std::vector<float>& in, std::vector<float>& out) {
  const int n = static_cast<int>(in.size());
  if (kind == "all-reduce") {
    MPI_Allreduce(in.data(), out.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (kind == "all-gather") {
    MPI_Allgather(in.data(), n, MPI_FLOAT, out.data(), n, MPI_FLOAT, MPI_COMM_WORLD);
  } else if (kind == "reduce-scatter") {
    MPI_Reduce_scatter_block(in.data(), out.data(), n / count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (kind == "all-to-all") {
    MPI_Alltoall(in.data(), n / count, MPI_FLOAT, out.data(), n / count, MPI_FLOAT, MPI_COMM_WORLD);
  } else {
    MPI_Sendrecv(in.data(), n, MPI_FLOAT, (own_rank + 1) % count, 0, out.data(), n, MPI_FLOAT,
                 (own_rank + count - 1) % count, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

float expected(const std::string& kind) {
  if (kind == "all-reduce" || kind == "reduce-scatter") return static_cast<float>(count * (count + 1) / 2);
  return kind == "permute" ? static_cast<float>(count) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto sizes = compare::parse_sizes(compare::option(argc, argv, "--sizes"));
  std::istringstream kinds(compare::option(argc, argv, "--kinds"));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  for (std::string kind; std::getline(kinds, kind, ',');) {
    for (const auto& [bytes, calls] : sizes) {
      const std::vector<float> in(static_cast<std::size_t>(bytes / 4), static_cast<float>(own_rank + 1));
      std::vector<float> out(kind == "all-gather" ? in.size() * static_cast<std::size_t>(count) : in.size());
      for (int i = 0; i < calls / 10 + 2; ++i) run(kind, in, out);
      if (own_rank == 0 && out[0] != expected(kind)) {
        std::fprintf(stderr, "mpi_collectives: the %s is wrong\n", kind.c_str());
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      std::vector<double> seconds;
      for (int i = 0; i < calls; ++i) {
        const double start = compare::now();
        run(kind, in, out);
        seconds.push_back(compare::now() - start);
      }
      if (own_rank == 0)
        compare::report_times("collective", seconds,
                              ", \"kind\": \"" + kind + "\", \"bytes\": " + std::to_string(bytes));
    }
  }
  MPI_Finalize();
}
