// SPDX-License-Identifier: Apache-2.0
// Products as they stand in the gradients of linear layers' weights, x^T y, in a scan over four
// layers.

#include <lockstep/lockstep.h>

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;
using ls::Array;

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  ls::initialize();
  struct Sizes {
    std::int64_t n, m, k;  // of x[n, m] and y[n, k]
  };
  const Sizes all[] = {{1024, 4096, 256}, {512, 1024, 1024}, {512, 512, 512},
                       {1024, 1024, 64},  {256, 768, 4096},  {128, 784, 64}};
  for (const ls::DType dtype : {ls::float32, ls::float64}) {
    for (const auto& [n, m, k] : all) {
      auto numbers = [dtype](std::int64_t rows, std::int64_t columns) {
        const Array number = ls::arange(4 * rows * columns, ls::float64);
        return ls::astype(ls::reshape(ls::sin(number), {4, rows, columns}), dtype);
      };
      const Array x = numbers(n, m), y = numbers(n, k);
      auto product = ls::jit([](Array x, Array y) {
        using Pair = std::pair<Array, Array>;
        return ls::map([](Pair of) { return ls::matmul(ls::transpose(of.first), of.second); }, Pair(x, y));
      });
      Array result;
      std::vector<double> seconds;
      for (int i = 0; i <= windows; ++i) {
        const double start = compare::now();
        result = product(x, y);
        result.block_until_ready();
        if (i > 0) seconds.push_back(compare::now() - start);
      }
      char more[160];
      std::snprintf(more, sizeof more, ", \"dtype\": \"%s\", \"sizes\": \"%d,%d,%d\", \"sum\": %.6g",
                    dtype == ls::float32 ? "f32" : "f64", static_cast<int>(n), static_cast<int>(m),
                    static_cast<int>(k), ls::sum(ls::abs(ls::astype(result, ls::float64))).item<double>());
      compare::report_times("products", seconds, more);
    }
  }
}
