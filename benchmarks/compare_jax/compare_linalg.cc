// SPDX-License-Identifier: Apache-2.0
// Jitted decompositions of one matrix and of many small ones.

#include <lockstep/lockstep.h>

#include <vector>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;
using ls::Array;

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const std::int64_t n = std::stoi(compare::option(argc, argv, "--size"));
  ls::initialize();
  // The same numbers on both sides.
  auto matrices = [](std::int64_t count, std::int64_t n) {
    const Array number = ls::arange(count * n * n, ls::DType::kF32);
    return ls::reshape(ls::sin(number * number % 1009.f), {count, n, n});
  };
  struct Input {
    const char* name;
    Array x;
  };
  const Input inputs[] = {{"one", matrices(1, n)}, {"many", matrices(256, 16)}};
  auto measure = [&](const char* name, const auto& f) {
    auto function = ls::jit([&f](Array x) { return f(x); });
    for (const Input& input : inputs) {
      Array result;
      std::vector<double> seconds;
      for (int i = 0; i <= windows; ++i) {
        const double start = compare::now();
        result = function(input.x);
        result.block_until_ready();
        if (i > 0) seconds.push_back(compare::now() - start);
      }
      char more[128];
      std::snprintf(more, sizeof more, ", \"operation\": \"%s\", \"of\": \"%s\", \"sum\": %.6g", name,
                    input.name, static_cast<double>(ls::sum(ls::abs(result)).item<float>()));
      compare::report_times("linalg", seconds, more);
    }
  };
  auto definite = [](const Array& x) {
    return ls::matmul(x, ls::swapaxes(x, -1, -2)) +
           static_cast<float>(x.shape().back()) * ls::eye(x.shape().back());
  };
  measure("cholesky", [&](const Array& x) { return ls::linalg::cholesky(definite(x)); });
  measure("lu_factor", [](const Array& x) { return ls::linalg::lu_factor(x).lu; });
  measure("solve", [](const Array& x) { return ls::linalg::solve(x, x + 1.f); });
  measure("qr", [](const Array& x) {
    const auto [q, r] = ls::linalg::qr(x);
    return q + r;
  });
  measure("r of qr", [](const Array& x) { return ls::linalg::qr(x).r; });
  measure("eigh", [&](const Array& x) { return ls::linalg::eigh(definite(x)).eigenvalues; });
  measure("svd", [](const Array& x) { return ls::linalg::svd(x).s; });
  measure("eigvals", [](const Array& x) { return ls::abs(ls::linalg::eigvals(x)); });
  measure("expm", [](const Array& x) { return ls::linalg::expm(x * 0.01f); });
  measure("gradient of solve", [](const Array& x) {
    return ls::grad([](Array x) { return ls::sum(ls::linalg::solve(x, x + 1.f)); })(x);
  });
}
