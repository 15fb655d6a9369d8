// SPDX-License-Identifier: Apache-2.0
// The forms in which oneDNN can multiply [n, m], transposed, by [n, k], in GFLOP/s, by one thread:
//   taskset -c 0 build/release/benchmarks/products_on_cpus
// The form that Lockstep takes has a star. `form_of_product` (lockstep/onednn/product.cc) was chosen by this
// table.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/onednn/computations.h"

namespace lockstep::onednn {
namespace {

constexpr ProductForm kForms[] = {ProductForm::kRows, ProductForm::kColumns, ProductForm::kTransposed};
constexpr std::size_t kRounds = 9;

/// Seconds of a product, the median of each form; they are measured in turns.
std::array<double, 3> measure(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::vector<float> x(static_cast<std::size_t>(n * m), 0.5F),
      y(static_cast<std::size_t>(n * k), 0.25F);
  std::vector<float> result(static_cast<std::size_t>(m * k));
  const ForEach in_turn = [](std::int64_t count, const std::function<void(std::int64_t)>& piece) {
    for (std::int64_t i = 0; i < count; ++i) piece(i);
  };
  std::array<std::vector<double>, 3> seconds;
  for (std::size_t round = 0; round <= kRounds; ++round) {
    for (std::size_t form = 0; form < seconds.size(); ++form) {
      const auto start = std::chrono::steady_clock::now();
      multiply(m, n, k, x.data(), y.data(), result.data(), in_turn, kForms[form]);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round > 0) seconds[form].push_back(took.count());  // the first one makes its plan
    }
  }
  std::array<double, 3> medians;
  for (std::size_t form = 0; form < medians.size(); ++form) {
    std::ranges::nth_element(seconds[form], seconds[form].begin() + kRounds / 2);
    medians[form] = seconds[form][kRounds / 2];
  }
  return medians;
}

void print(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::array<double, 3> seconds = measure(m, n, k);
  const double best = std::ranges::min(seconds);
  std::string line;
  double taken = 0;
  for (std::size_t form = 0; form < seconds.size(); ++form) {
    const bool is_taken = form_of_product(m, n, k) == kForms[form];
    if (is_taken) taken = seconds[form];
    char text[32];
    std::snprintf(text, sizeof text, "%10.1f %c", 2e-9 * static_cast<double>(m * n * k) / seconds[form],
                  is_taken ? '*' : ' ');
    line += text;
  }
  std::printf("%6td %6td %6td%s%8.2f\n", m, n, k, line.c_str(), best / taken);
  std::fflush(stdout);
}

}  // namespace
}  // namespace lockstep::onednn

int main() {
  using namespace lockstep::onednn;
  if (!is_available()) {
    std::printf("%s\n", description().c_str());
    return 1;
  }
  std::printf("%6s %6s %6s%12s%12s%12s%8s\n", "m", "n", "k", "rows  ", "columns  ", "transposed  ",
              "of best");
  for (const std::int64_t n : {256, 512, 768, 1024, 2048})
    for (const auto& [m, k] : {std::pair<std::int64_t, std::int64_t>{64, 512},
                               {128, 768},
                               {256, 256},
                               {256, 688},
                               {688, 256},
                               {256, 4096},
                               {4096, 256},
                               {512, 2048},
                               {2048, 512},
                               {768, 3072},
                               {3072, 768},
                               {1000, 512},
                               {2048, 2048}})
      print(m, n, k);
}
