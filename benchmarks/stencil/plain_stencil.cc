// SPDX-License-Identifier: Apache-2.0
// The loop that an engineer writes by hand: the heat equation on a square in one process, or, with
// -D STENCIL_MPI, on rows of several MPI processes. compare.py compiles it.

#ifdef STENCIL_MPI
#include <mpi.h>
#endif

#include <string>
#include <type_traits>
#include <utility>

#include "benchmarks/compare_jax/measure.h"

namespace {

int own_rank = 0, count = 1;

/// The first and the last row of u are the neighbours', or zeros.
template <class T>
void exchange(std::vector<T>& u, std::int64_t rows, std::int64_t width) {
#ifdef STENCIL_MPI
  const MPI_Datatype type = std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
  const int n = static_cast<int>(width);
  const int above = own_rank > 0 ? own_rank - 1 : MPI_PROC_NULL;
  const int below = own_rank + 1 < count ? own_rank + 1 : MPI_PROC_NULL;
  T* const all = u.data();
  MPI_Sendrecv(all + rows * width, n, type, below, 0, all, n, type, above, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(all + width, n, type, above, 1, all + (rows + 1) * width, n, type, below, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
#else
  static_cast<void>(u), static_cast<void>(rows), static_cast<void>(width);
#endif
}

/// One step of `rows` rows; u and next have a column of zeros on both sides.
template <class T>
void step(const T* __restrict u, T* __restrict next, std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 1; i <= rows; ++i) {
    const T* const row = u + i * width;
    T* const out = next + i * width;
    for (std::int64_t j = 1; j < width - 1; ++j)
      out[j] = row[j] + T(0.1) * (row[j - width] + row[j + width] + row[j - 1] + row[j + 1] - T(4) * row[j]);
  }
}

template <class T>
void measure(std::int64_t size, int steps, int windows) {
  const std::int64_t rows = size / count, width = size + 2, first = own_rank * rows;
  std::vector<T> u(static_cast<std::size_t>((rows + 2) * width)), next = u;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      u[static_cast<std::size_t>((i + 1) * width + j + 1)] =
          static_cast<T>((7 * (first + i) + 13 * j) % 32) / 32;
  std::vector<double> seconds;
  for (int i = 0; i <= windows; ++i) {
    const double start = compare::now();
    for (int k = 0; k < steps; ++k) {
      exchange(u, rows, width);
      step(u.data(), next.data(), rows, width);
      std::swap(u, next);
    }
    if (i > 0) seconds.push_back((compare::now() - start) / steps);
  }
  double sum = 0;
  for (std::int64_t i = 1; i <= rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      const auto cell = static_cast<double>(u[static_cast<std::size_t>(i * width + j)]);
      sum += cell * cell;
    }
#ifdef STENCIL_MPI
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
  if (own_rank != 0) return;
  char more[64];
  std::snprintf(more, sizeof more, ", \"sum\": %.12g", sum);
  compare::report_times("stencil", seconds, more);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t size = std::stoll(compare::option(argc, argv, "--size"));
  const bool wide = compare::option(argc, argv, "--bits") == "64";
  const int steps = std::stoi(compare::option(argc, argv, "--steps"));
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
#ifdef STENCIL_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
#endif
  (wide ? measure<double> : measure<float>)(size, steps, windows);
#ifdef STENCIL_MPI
  MPI_Finalize();
#endif
}
