// SPDX-License-Identifier: Apache-2.0
// The complete training of a linear model: parameters in a map, replicated; the batch split over all devices;
// each device's gradients averaged over `devices` inside shard_map; adam.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/train_linear
//   [0] epoch  0: loss 13.7588
//   [0] epoch  5: loss 7.4852
//   [0] epoch 10: loss 3.9407
//   [0] epoch 15: loss 1.9326
//   [0] epoch 20: loss 0.8667
//   [0] epoch 25: loss 0.3416
//   [0] epoch 30: loss 0.1108
//   [0] epoch 35: loss 0.0274
//   [0] epoch 40: loss 0.0048
//   [0] epoch 45: loss 0.0006
//   [0] epoch 50: loss 0.0001

#include <lockstep/lockstep.h>

#include <cstdio>
#include <map>

namespace ls = lockstep;
using ls::Array, ls::P;

using Params = std::map<std::string, Array>;

Array loss(const Params& params, const Array& x, const Array& y) {
  Array prediction = ls::matmul(x, params.at("w")) + params.at("b");
  return ls::mean(ls::square(prediction - y));
}

int main() {
  ls::initialize();
  constexpr std::int64_t kRows = 1024, kColumns = 8, kEpochs = 51;
  ls::Mesh mesh = ls::make_mesh({{"devices", ls::device_count()}});
  ls::NamedSharding rows(mesh, P("devices")), replicated(mesh, P());

  // The same on every device, from the same key.
  auto [data_key, truth_key, noise_key, init_key] = ls::random::split<4>(ls::random::key(0));
  Array x = ls::device_put(ls::random::normal(data_key, {kRows, kColumns}), rows);
  Array truth = ls::random::normal(truth_key, {kColumns, 1});
  Array y =
      ls::device_put(ls::matmul(x, truth) + 0.5 + 0.01 * ls::random::normal(noise_key, {kRows, 1}), rows);

  auto adam = ls::optim::adam(1e-3);
  Params params = {{"w", ls::device_put(0.1 * ls::random::normal(init_key, {kColumns, 1}), replicated)},
                   {"b", ls::device_put(ls::zeros({1}), replicated)}};
  auto state = adam.init(params);

  // On each device: the gradient of its rows, averaged over all devices.
  auto gradients = ls::shard_map(
      [](Params params, Array x, Array y) {
        for (auto& [name, value] : params) value = ls::pvary(value, "devices");
        auto [value, grads] = ls::value_and_grad(loss)(params, x, y);
        for (auto& [name, grad] : grads) grad = ls::pmean(grad, "devices");
        return std::tuple(ls::pmean(value, "devices"), grads);
      },
      {.mesh = mesh, .in_specs = {P(), P("devices"), P("devices")}, .out_specs = {P(), P()}});

  auto step = ls::jit(
      [&](Params params, decltype(state) state, Array x, Array y) {
        auto [value, grads] = gradients(params, x, y);
        auto [updates, next] = adam.update(grads, state);
        return std::tuple(ls::optim::apply_updates(params, updates), next, value);
      },
      {.donate_argnums = {0, 1}});

  const std::int64_t steps = 100;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    Array value;
    for (std::int64_t i = 0; i < steps; ++i) std::tie(params, state, value) = step(params, state, x, y);
    if (ls::process_index() == 0 && epoch % 5 == 0)
      std::printf("epoch %2d: loss %.4f\n", static_cast<int>(epoch), value.item<float>());
  }
}
