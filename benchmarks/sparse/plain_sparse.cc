// SPDX-License-Identifier: Apache-2.0
// The loops that an engineer writes by hand, in one thread: conjugate gradients with a matrix by rows.
// compare.py compiles it.

#include <string>

#include "benchmarks/compare_jax/measure.h"
#include "benchmarks/sparse/laplacian.h"

namespace {

using Vector = std::vector<double>;

void multiply(const compare::Laplacian& a, const Vector& x, Vector& y) {
  for (std::size_t row = 0; row < y.size(); ++row) {
    double sum = 0;
    for (std::int32_t k = a.pointers[row]; k < a.pointers[row + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      sum += a.data[at] * x[static_cast<std::size_t>(a.columns[at])];
    }
    y[row] = sum;
  }
}

double dot(const Vector& x, const Vector& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Vector solve(const compare::Laplacian& a, int steps) {
  Vector x(a.right.size()), residual = a.right, direction = a.right, product(x.size());
  double square = dot(residual, residual);
  for (int step = 0; step < steps; ++step) {
    multiply(a, direction, product);
    const double along = square / dot(direction, product);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += along * direction[i];
      residual[i] -= along * product[i];
    }
    const double before = square;
    square = dot(residual, residual);
    for (std::size_t i = 0; i < x.size(); ++i) direction[i] = residual[i] + square / before * direction[i];
  }
  return x;
}

}  // namespace

int main(int argc, char** argv) {
  const compare::Laplacian a(std::stoll(compare::option(argc, argv, "--size")));
  const int steps = std::stoi(compare::option(argc, argv, "--steps"));
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  std::vector<double> seconds;
  Vector x;
  for (int i = 0; i <= windows; ++i) {
    const double start = compare::now();
    x = solve(a, steps);
    if (i > 0) seconds.push_back((compare::now() - start) / steps);
  }
  double sum = 0;
  for (double each : x) sum += each;
  char more[64];
  std::snprintf(more, sizeof more, ", \"sum\": %.12g", sum);
  compare::report_times("sparse", seconds, more);
}
