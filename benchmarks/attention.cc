// SPDX-License-Identifier: Apache-2.0
// Benchmark of dot_product_attention, all keys at once, by blocks of 256, and causal: temporary memory by the
// compiler's plan, and the median time of 5 calls, in turns. 4 heads of 64 features, f32.
//
//   $ build/release/benchmarks/attention            # 1024, 2048 and 4096 queries and keys

#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

namespace ls = lockstep;

int main() {
  ls::initialize();
  const std::array<ls::nn::AttentionOptions, 3> kinds = {
      {{.block_size = 0}, {.block_size = 256}, {.is_causal = true}}};
  fmt::print("{:>16}  {:>8}  {:>20}  {:>20}  {:>20}\n", "queries and keys", "", "all at once", "by blocks",
             "causal");
  for (const std::int64_t n : {1024, 2048, 4096}) {
    std::vector<ls::Array> x;
    for (int seed : {0, 1, 2}) x.push_back(ls::random::normal(ls::random::key(seed), {1, n, 4, 64}));
    for (const bool gradient : {false, true}) {
      const auto made = [&](const ls::nn::AttentionOptions& options) {
        return ls::jit([options, gradient](ls::Array q, ls::Array k, ls::Array v) {
          const auto f = [&](ls::Array a) { return ls::nn::dot_product_attention(a, k, v, options); };
          return gradient ? ls::grad([&](ls::Array a) { return ls::sum(f(a)); })(q) : f(q);
        });
      };
      std::vector<decltype(made(kinds[0]))> functions;
      for (const ls::nn::AttentionOptions& options : kinds) functions.push_back(made(options));
      std::vector<std::vector<double>> seconds(kinds.size());
      for (int round = 0; round < 6; ++round) {
        for (std::size_t i = 0; i < functions.size(); ++i) {
          const auto start = std::chrono::steady_clock::now();
          functions[i](x[0], x[1], x[2]).block_until_ready();
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          if (round > 0) seconds[i].push_back(took.count());  // the first one compiles
        }
      }
      std::string line;
      for (std::size_t i = 0; i < functions.size(); ++i) {
        std::ranges::sort(seconds[i]);
        const auto bytes = functions[i].lower(x[0], x[1], x[2]).compile().cost().temporary_bytes;
        line +=
            fmt::format("  {:>8.0f} MiB {:>5.3f} s", static_cast<double>(bytes) / (1 << 20), seconds[i][2]);
      }
      fmt::print("{:>16}  {:>8}{}\n", n, gradient ? "gradient" : "forward", line);
    }
  }
}
