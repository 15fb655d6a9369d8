// SPDX-License-Identifier: Apache-2.0
// A cached call of a jitted x + 1 for f32[8].

#include <lockstep/lockstep.h>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const int window = std::stoi(compare::option(argc, argv, "--window"));
  ls::initialize();
  auto add_one = ls::jit([](ls::Array x) { return x + 1; });
  ls::Array x = ls::zeros({8}), y;
  auto run = [&] {
    for (int i = 0; i < window; ++i) y = add_one(x);
    y.block_until_ready();
  };
  run();
  std::vector<double> seconds;
  for (int i = 0; i < windows; ++i) {
    const double start = compare::now();
    run();
    seconds.push_back((compare::now() - start) / window);
  }
  if (y.to_host<float>() != std::vector<float>(8, 1.0f)) {
    std::fprintf(stderr, "compare_jit: the result is wrong\n");
    return 1;
  }
  compare::report_times("jit", seconds);
}
