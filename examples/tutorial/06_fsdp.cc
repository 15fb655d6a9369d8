// SPDX-License-Identifier: Apache-2.0
// Step 6: parameters that no device has whole. Their dimensions are split over `data` (fully sharded data
// parallelism) and over `tensor` (tensor parallelism), by rules for the parameters' names.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/06_fsdp
//   [0] up    is f32[32,128], split by P('data', 'tensor')
//   [0] down  is f32[128,32], split by P('tensor', 'data')
//   [0] scale is f32[32], split by P()
//   [0] all-gather      32768 bytes a step
//   [0] all-reduce      16644 bytes a step
//   [0] reduce-scatter  32768 bytes a step
//   [0] step  0: loss 2.64
//   [0] step 10: loss 0.19
//   [0] step 20: loss 0.05

#include <lockstep/lockstep.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P;

struct Layer {
  Array up, down, scale;  // [32, 128], [128, 32], [32]
};
struct Model {
  std::vector<Layer> layers;
};

Model init(const ls::random::Key& key) {
  Model model;
  for (int i = 0; i < 2; ++i) {
    auto [k1, k2] = ls::random::split<2>(ls::random::fold_in(key, i));
    model.layers.push_back(
        {ls::random::normal(k1, {32, 128}) / 6.0, ls::random::normal(k2, {128, 32}) / 12.0, ls::ones({32})});
  }
  return model;
}

Array loss(const Model& model, Array x) {
  const Array target = ls::flip(x, 1);
  for (const Layer& layer : model.layers)
    x = x + ls::matmul(ls::nn::gelu(ls::matmul(ls::nn::rms_norm(x, layer.scale), layer.up)), layer.down);
  return ls::mean(ls::square(x - target));
}

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"data", 2}, {"tensor", -1}});
  auto sharding = [&](const P& spec) { return ls::NamedSharding(mesh, spec); };
  // The first rule whose glob matches an array's path applies. The moments of adam have the parameters'
  // paths after a prefix, so the same rules match them, too.
  const ls::tree::Rules<ls::Sharding> rules{
      {"*up", sharding(P("data", "tensor"))}, {"*down", sharding(P("tensor", "data"))}, {"*", sharding(P())}};
  const auto adam = ls::optim::adam(0.01);
  auto [model, state] = ls::jit(
      [&] {
        Model model = init(ls::random::key(0));
        return std::pair(model, adam.init(model));
      },
      {.out_shardings = {rules, rules}})();
  Array x = ls::device_put(ls::random::normal(ls::random::key(1), {64, 32}), sharding(P("data")));

  auto step = ls::jit(
      [&](Model model, decltype(state) state, const Array& x) {
        auto [value, grads] = ls::value_and_grad(loss)(model, x);
        auto [updates, next] = adam.update(grads, state);
        return std::tuple(ls::optim::apply_updates(model, updates), next, value);
      },
      {.out_shardings = {rules, rules, sharding(P())}, .donate_argnums = {0, 1}});

  std::map<std::string, std::int64_t>
      bytes;  // that a device sends or receives in a step, by kind of collective
  for (const auto& line : step.lower(model, state, x).communication()) bytes[line.kind] += line.bytes;

  const bool speaker = ls::process_index() == 0;
  if (speaker) {
    for (const auto& [path, array] : ls::tree::leaves_with_path(model.layers[0]))
      std::printf("%-5s is %s, split by %s\n", path.c_str(), ls::to_string(array.aval()).c_str(),
                  array.sharding().spec().to_string().c_str());
    for (const auto& [kind, count] : bytes)
      std::printf("%-14s %6lld bytes a step\n", kind.c_str(), static_cast<long long>(count));
  }
  for (int i = 0; i <= 20; ++i) {
    Array value;
    std::tie(model, state, value) = step(model, state, x);
    if (i % 10 == 0 && speaker) std::printf("step %2d: loss %.2f\n", i, value.item<float>());
  }
}
