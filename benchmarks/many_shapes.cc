// SPDX-License-Identifier: Apache-2.0
// Resident memory of a process that compiles a jitted function and an operation for ever new shapes: a line
// after each tenth of them. What is kept is bounded (docs/guide.md), so it must be level once the bound is
// reached.
//
//   $ build/release/benchmarks/many_shapes              # 20,000 shapes
//   $ build/release/benchmarks/many_shapes 4000 500     # 4,000 shapes, of which 500 programs are kept

#include <lockstep/lockstep.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace ls = lockstep;

namespace {

double resident_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmRSS:" && status >> kibibytes) return kibibytes / 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t shapes = argc > 1 ? std::stoll(argv[1]) : 20000;
  ls::InitializeOptions options;
  if (argc > 2) options.max_compiled_programs = std::stoll(argv[2]);
  ls::initialize(options);
  auto step = ls::jit([](ls::Array x) { return ls::tanh(x) * 2 + ls::sum(x); }, {.name = "step"});
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t n = 1; n <= shapes; ++n) {
    // Shapes that differ, of few elements.
    const ls::Array x = ls::zeros({1 + n / 200, 1 + n % 200});
    if (step(x).shape() != x.shape()) return 1;
    if (n % (shapes / 10) != 0 && n != 2000) continue;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("{\"shapes\": %lld, \"resident_mib\": %.0f, \"seconds\": %.0f}\n", static_cast<long long>(n),
                resident_mebibytes(), seconds.count());
    std::fflush(stdout);
  }
}
