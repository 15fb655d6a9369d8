// SPDX-License-Identifier: Apache-2.0
// What the gradient of a transformer takes to trace and compile, and to run, if its layers stand one after
// the other in the program, and if they are stacked and computed by a scan. Width 128, 4 heads, 8 rows of 64
// places, f32; the median of 15 calls, in turns.
//
//   $ build/release/benchmarks/stacked_layers
//   $ NPROC=1 taskset -c 0 build/release/benchmarks/stacked_layers      # on one core

#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array;

namespace {

constexpr std::int64_t kWidth = 128;

struct Layer {
  nn::LayerNorm attention_norm;
  nn::MultiHeadAttention attention;
  nn::LayerNorm norm;
  nn::Linear up, down;

  Array operator()(const Array& x) const {
    const Array y = x + attention(attention_norm(x), {.is_causal = true});
    return y + down(nn::gelu(up(norm(y))));
  }
};

Array loss(const std::vector<Layer>& layers, Array x) {
  for (const Layer& layer : layers) x = layer(x);
  return ls::mean(ls::square(x));
}

Array stacked_loss(const Layer& stacked, const Array& x) {
  auto apply = [](Array x, const Layer& layer) { return std::pair(layer(x), std::tuple<>()); };
  return ls::mean(ls::square(ls::scan(apply, x, stacked).first));
}

double seconds(const auto& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class F, class Parameters>
double run(const F& function, const Parameters& parameters, const Array& x) {
  return seconds([&] {
    ls::tree::map([](const Array& each) { return each.block_until_ready(), each; }, function(parameters, x));
  });
}

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

}  // namespace

int main() {
  ls::initialize();
  const Layer layer{{.features = kWidth},
                    {.num_heads = 4, .in_features = kWidth},
                    {.features = kWidth},
                    {.in_features = kWidth, .out_features = 4 * kWidth},
                    {.in_features = 4 * kWidth, .out_features = kWidth}};
  const Array x = ls::ones({8, 64, kWidth});
  fmt::print("{:>6}  {:>22}  {:>22}\n", "layers", "one after the other", "by a scan");
  for (int count : {2, 4, 8, 16}) {
    std::vector<Layer> layers;
    for (int i = 0; i < count; ++i) layers.push_back(nn::init(layer, ls::random::key(i)));
    const Layer stacked = nn::stack_layers(layers);
    const auto gradient = ls::jit(ls::grad(loss));
    const auto stacked_gradient = ls::jit(ls::grad(stacked_loss));
    const double compiled = run(gradient, layers, x), stacked_compiled = run(stacked_gradient, stacked, x);
    std::vector<double> times, stacked_times;
    for (int i = 0; i < 15; ++i) {
      times.push_back(run(gradient, layers, x));
      stacked_times.push_back(run(stacked_gradient, stacked, x));
    }
    fmt::print("{:>6}  {:>10.2f} s {:>6.1f} ms  {:>10.2f} s {:>6.1f} ms\n", count, compiled,
               median(times) * 1e3, stacked_compiled, median(stacked_times) * 1e3);
  }
}
