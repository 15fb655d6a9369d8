// SPDX-License-Identifier: Apache-2.0
// Lockstep's side of the comparison: steps of conjugate gradients for the Laplacian of a square, many in one
// call. compare.py runs it.

#include <lockstep/lockstep.h>

#include <string>

#include "benchmarks/compare_jax/measure.h"
#include "benchmarks/sparse/laplacian.h"

namespace ls = lockstep;
using ls::Array, ls::P;

namespace {

struct State {
  Array x, residual, direction, square;
};

template <class Matrix>
void measure(const Matrix& matrix, const Array& right, int steps, int windows) {
  auto run = ls::jit([steps](const Matrix& a, const Array& b) {
    const State begin = {ls::zeros_like(b), b, b, ls::sum(b * b)};
    const State end = ls::fori_loop(
        0, steps,
        [&a](const Array&, const State& at) {
          const Array product = matmul(a, at.direction);
          const Array along = at.square / ls::sum(at.direction * product);
          const Array residual = at.residual - along * product;
          const Array square = ls::sum(residual * residual);
          return State{at.x + along * at.direction, residual, residual + square / at.square * at.direction,
                       square};
        },
        begin);
    return end.x;
  });
  std::vector<double> seconds;
  Array x;
  for (int i = 0; i <= windows; ++i) {
    const double start = compare::now();
    x = run(matrix, right);
    x.block_until_ready();
    if (i > 0) seconds.push_back((compare::now() - start) / steps);
  }
  const double sum = ls::sum(x).item<double>();
  if (ls::process_index() != 0) return;
  char more[64];
  std::snprintf(more, sizeof more, ", \"sum\": %.12g", sum);
  compare::report_times("sparse", seconds, more);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string form = compare::option(argc, argv, "--form");
  const std::int64_t size = std::stoll(compare::option(argc, argv, "--size"));
  const int steps = std::stoi(compare::option(argc, argv, "--steps"));
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  ls::initialize();
  const compare::Laplacian all(size);
  const auto matrix =
      ls::sparse::BCSR::from_csr(all.data, all.columns, all.pointers, {size * size, size * size});
  if (form == "BCSR") {
    measure(matrix, ls::array(all.right), steps, windows);
  } else {
    const ls::NamedSharding rows(ls::make_mesh({{"rows", ls::device_count()}}), P("rows"));
    measure(ls::sparse::split_rows(matrix, rows), ls::device_put(ls::HostView(all.right), rows), steps,
            windows);
  }
}
