// SPDX-License-Identifier: Apache-2.0
// Benchmark of dot_product_attention, of all keys, causal, causal by a mask, and with a bias of heads, by the
// library that takes it and by XLA: temporary memory by the compiler's plan, and the median time of 5 calls,
// in turns. 4 heads of 64 features, f32. The gradient is that of query, key and value, and of the bias.
//
//   $ build/release/benchmarks/attention            # 1024, 2048 and 4096 queries and keys

#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace ls = lockstep;
using Arrays = std::vector<ls::Array>;

int main() {
  ls::initialize();
  fmt::print("{:>16}  {:>8}  {:>20}  {:>20}  {:>20}  {:>20}  {:>20}  {:>20}\n", "queries and keys", "",
             "all keys", "causal", "a mask", "a mask, by XLA", "a bias", "a bias, by XLA");
  for (const std::int64_t n : {1024, 2048, 4096}) {
    Arrays x;
    for (int seed : {0, 1, 2}) x.push_back(ls::random::normal(ls::random::key(seed), {1, n, 4, 64}));
    const ls::Array mask = ls::tril(ls::ones({1, 1, n, n}, ls::bool_));
    const Arrays with_bias = {x[0], x[1], x[2], ls::random::normal(ls::random::key(3), {1, 4, n, n})};
    struct Kind {
      ls::nn::AttentionOptions options;
      Arrays operands;
    };
    constexpr auto kXla = ls::nn::AttentionImplementation::kXla;
    const Kind kinds[] = {{{}, x},
                          {{.is_causal = true}, x},
                          {{.mask = mask}, x},
                          {{.mask = mask, .implementation = kXla}, x},
                          {{}, with_bias},
                          {{.implementation = kXla}, with_bias}};
    for (const bool gradient : {false, true}) {
      const auto made = [&](const ls::nn::AttentionOptions& options) {
        return ls::jit([options, gradient](const Arrays& x) {
          const auto f = [&](const Arrays& x) {
            ls::nn::AttentionOptions all = options;
            if (x.size() > 3) all.bias = x[3];
            return ls::nn::dot_product_attention(x[0], x[1], x[2], all);
          };
          return gradient ? ls::grad([&](const Arrays& x) { return ls::sum(f(x)); })(x) : Arrays{f(x)};
        });
      };
      std::vector<decltype(made(kinds[0].options))> functions;
      for (const Kind& kind : kinds) functions.push_back(made(kind.options));
      std::vector<std::vector<double>> seconds(functions.size());
      for (int round = 0; round < 6; ++round) {
        for (std::size_t i = 0; i < functions.size(); ++i) {
          const auto start = std::chrono::steady_clock::now();
          ls::block_until_ready(functions[i](kinds[i].operands));
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          if (round > 0) seconds[i].push_back(took.count());  // the first one compiles
        }
      }
      std::string line;
      for (std::size_t i = 0; i < functions.size(); ++i) {
        std::ranges::sort(seconds[i]);
        const auto bytes = functions[i].lower(kinds[i].operands).compile().cost().temporary_bytes;
        line +=
            fmt::format("  {:>8.0f} MiB {:>5.3f} s", static_cast<double>(bytes) / (1 << 20), seconds[i][2]);
      }
      fmt::print("{:>16}  {:>8}{}\n", n, gradient ? "gradient" : "forward", line);
    }
  }
}
