// SPDX-License-Identifier: Apache-2.0
// A jitted scan of many steps of a small recurrent cell, and its gradient.

#include <lockstep/lockstep.h>

#include <cmath>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;
using ls::Array;

namespace {

constexpr std::int64_t kState = 32;

/// tanh(w h + x) for each row of xs; the mean of the squares of all states.
Array loss(const Array& w, const Array& xs) {
  auto step = [&](const Array& h, const Array& x) {
    Array next = ls::tanh(ls::matmul(w, h) + x);
    return std::pair(next, next);
  };
  return ls::mean(ls::square(ls::scan(step, ls::zeros({kState}), xs).second));
}

}  // namespace

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const int window = std::stoi(compare::option(argc, argv, "--window"));
  const int steps = std::stoi(compare::option(argc, argv, "--steps"));
  ls::initialize();
  // The same numbers on both sides.
  Array w = ls::reshape(ls::sin(ls::arange(kState * kState, ls::DType::kF32)) * 0.1f, {kState, kState});
  Array xs = ls::reshape(ls::cos(ls::arange(steps * kState, ls::DType::kF32)), {steps, kState});
  auto forward = ls::jit([](Array w, Array xs) { return loss(w, xs); });
  auto backward = ls::jit([](Array w, Array xs) { return ls::grad(loss)(w, xs); });
  auto measure = [&](const char* name, auto& function) {
    Array result;
    std::vector<double> seconds;
    for (int i = 0; i <= windows; ++i) {
      const double start = compare::now();
      for (int k = 0; k < window; ++k) {
        result = function(w, xs);
        result.block_until_ready();
      }
      if (i > 0) seconds.push_back((compare::now() - start) / window);
    }
    char more[96];
    std::snprintf(more, sizeof more, ", \"direction\": \"%s\", \"sum\": %.9g", name,
                  static_cast<double>(ls::sum(ls::abs(result)).item<float>()));
    compare::report_times("scan", seconds, more);
  };
  measure("forward", forward);
  measure("gradient", backward);
}
