// SPDX-License-Identifier: Apache-2.0
// Small operations outside of any traced function, each called many times.

#include <lockstep/lockstep.h>

#include <functional>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const int window = std::stoi(compare::option(argc, argv, "--window"));
  ls::initialize();
  const ls::Array x = ls::arange(8, ls::DType::kF32), y = ls::ones({8}), m = ls::ones({8, 8});
  struct Operation {
    const char* name;
    std::function<ls::Array()> call;
    std::vector<float> expected;
  };
  const Operation operations[] = {
      {"x + y", [&] { return x + y; }, {1, 2, 3, 4, 5, 6, 7, 8}},
      {"x + 1", [&] { return x + 1; }, {1, 2, 3, 4, 5, 6, 7, 8}},
      {"matmul 8x8", [&] { return ls::matmul(m, m); }, std::vector<float>(64, 8)},
      {"sum", [&] { return ls::sum(x); }, {28}},
      {"reshape",
       [&] {
         return ls::reshape(x, {2, 4});
       },
       {0, 1, 2, 3, 4, 5, 6, 7}},
      {"x[3]", [&] { return x[3]; }, {3}},
  };
  for (const Operation& operation : operations) {
    ls::Array result;
    std::vector<double> seconds;
    for (int i = 0; i <= windows; ++i) {
      const double start = compare::now();
      for (int k = 0; k < window; ++k) result = operation.call();
      result.block_until_ready();
      if (i > 0) seconds.push_back((compare::now() - start) / window);
    }
    if (result.to_host<float>() != operation.expected) {
      std::fprintf(stderr, "compare_eager: the result of %s is wrong\n", operation.name);
      return 1;
    }
    compare::report_times("eager", seconds, std::string(", \"operation\": \"") + operation.name + "\"");
  }
}
