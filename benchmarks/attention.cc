// SPDX-License-Identifier: Apache-2.0
// Benchmark of dot_product_attention, all keys at once and by blocks of 256: temporary memory by the
// compiler's plan, and the median time of 5 calls, in turns. 4 heads of 64 features, causal, f32.
//
//   $ build/release/benchmarks/attention            # 1024, 2048 and 4096 queries and keys

#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace ls = lockstep;

namespace {

struct Measured {
  double mebibytes = 0;
  std::vector<double> seconds = {};
  double median() {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }
};

template <class F>
void time(const F& function, const ls::Array& q, const ls::Array& k, const ls::Array& v, Measured& into) {
  const auto start = std::chrono::steady_clock::now();
  ls::tree::map([](const ls::Array& x) { return x.block_until_ready(), x; }, function(q, k, v));
  into.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

int main() {
  ls::initialize();
  fmt::print("{:>16}  {:>8}  {:>20}  {:>20}\n", "queries and keys", "", "all at once", "by blocks");
  for (const std::int64_t n : {1024, 2048, 4096}) {
    std::vector<ls::Array> inputs;
    for (int seed : {0, 1, 2}) inputs.push_back(ls::random::normal(ls::random::key(seed), {1, n, 4, 64}));
    auto by = [](std::int64_t block) {
      return [block](ls::Array q, ls::Array k, ls::Array v) {
        return ls::nn::dot_product_attention(q, k, v, {.is_causal = true, .block_size = block});
      };
    };
    auto gradient = [&](std::int64_t block) {
      return [block](ls::Array q, ls::Array k, ls::Array v) {
        return ls::grad([&](ls::Array a) {
          return ls::sum(ls::nn::dot_product_attention(a, k, v, {.is_causal = true, .block_size = block}));
        })(q);
      };
    };
    auto compare = [&](const char* what, auto whole, auto blocks) {
      Measured of_whole, of_blocks;
      auto mebibytes = [&](auto& f) {
        return static_cast<double>(
                   f.lower(inputs[0], inputs[1], inputs[2]).compile().cost().temporary_bytes) /
               (1 << 20);
      };
      of_whole.mebibytes = mebibytes(whole);
      of_blocks.mebibytes = mebibytes(blocks);
      for (int round = 0; round < 6; ++round) {
        time(whole, inputs[0], inputs[1], inputs[2], of_whole);
        time(blocks, inputs[0], inputs[1], inputs[2], of_blocks);
        if (round == 0) of_whole.seconds = of_blocks.seconds = {};  // which compiled
      }
      fmt::print("{:>16}  {:>8}  {:>8.0f} MiB {:>5.3f} s  {:>8.0f} MiB {:>5.3f} s\n", n, what,
                 of_whole.mebibytes, of_whole.median(), of_blocks.mebibytes, of_blocks.median());
    };
    compare("forward", ls::jit(by(0)), ls::jit(by(256)));
    compare("gradient", ls::jit(gradient(0)), ls::jit(gradient(256)));
  }
}
