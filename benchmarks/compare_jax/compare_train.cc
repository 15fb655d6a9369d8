// SPDX-License-Identifier: Apache-2.0
// Training steps of an MLP 784-512-512-10 with adam, a global batch of 512 split over the processes. Steps
// are timed in windows that end by waiting for the loss.

#include <lockstep/lockstep.h>

#include <cmath>
#include <random>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;
using ls::Array, ls::P;

struct Layer {
  Array w, b;
};
struct Mlp {
  std::vector<Layer> layers;
};

constexpr int kLayers[] = {784, 512, 512, 10};
constexpr int kBatch = 512;

Array loss(const Mlp& mlp, Array x, const Array& y) {
  for (std::size_t i = 0; i < mlp.layers.size(); ++i) {
    x = ls::matmul(x, mlp.layers[i].w) + mlp.layers[i].b;
    if (i + 1 < mlp.layers.size()) x = ls::nn::relu(x);
  }
  return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(x, y));
}

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const int window = std::stoi(compare::option(argc, argv, "--window"));
  const bool split_state = compare::option(argc, argv, "--split-state") == "1";
  ls::initialize();
  const int index = ls::process_index(), count = ls::process_count();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding rows(mesh, P("data")), replicated(mesh, P());

  const auto optimizer = ls::optim::adam(1e-3);
  auto step = ls::jit(
      [&](Mlp mlp, ls::optim::AdamState<Mlp> state, Array x, Array y) {
        auto [value, grads] = ls::value_and_grad(loss)(mlp, x, y);
        auto [updates, next] = optimizer.update(grads, state, mlp);
        return std::tuple(ls::optim::apply_updates(mlp, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  std::mt19937 generator(0);
  auto normal = [&](std::size_t n, double scale) {
    std::normal_distribution<float> distribution(0, static_cast<float>(scale));
    std::vector<float> values(n);
    for (float& value : values) value = distribution(generator);
    return values;
  };
  auto everywhere = [&](const std::vector<float>& values, const ls::Shape& shape) {
    return ls::make_array_from_process_local_data(replicated, values, shape);
  };
  auto make = [&](bool zero) {
    Mlp mlp;
    for (int i = 0; i < 3; ++i) {
      const auto n = static_cast<std::size_t>(kLayers[i]), m = static_cast<std::size_t>(kLayers[i + 1]);
      mlp.layers.push_back(
          {everywhere(zero ? std::vector<float>(n * m) : normal(n * m, std::sqrt(2.0 / kLayers[i])),
                      {kLayers[i], kLayers[i + 1]}),
           everywhere(std::vector<float>(m), {kLayers[i + 1]})});
    }
    return mlp;
  };
  Mlp mlp = make(false);
  auto moment = [&] {
    return ls::tree::map(
        [&](const Array& zeros) {
          return split_state && zeros.shape()[0] % count == 0 ? ls::device_put(zeros, rows) : zeros;
        },
        make(true));
  };
  ls::optim::AdamState<Mlp> state{
      ls::make_array_from_process_local_data(replicated, std::vector<std::int32_t>{0}, {}), moment(),
      moment()};

  generator.seed(static_cast<unsigned>(index + 1));
  const int local = kBatch / count;
  Array x = ls::make_array_from_process_local_data(
      rows, normal(static_cast<std::size_t>(local * kLayers[0]), 1), {local, kLayers[0]});
  std::vector<std::int32_t> labels(static_cast<std::size_t>(local));
  for (auto& label : labels) label = static_cast<std::int32_t>(generator() % 10);
  Array y = ls::make_array_from_process_local_data(rows, labels, {local});

  Array value;
  auto take_step = [&] { std::tie(mlp, state, value) = step(mlp, state, x, y); };
  take_step();
  value.block_until_ready();
  compare::report_first_step(index);

  for (int i = 0; i < window; ++i) take_step();
  value.block_until_ready();
  std::vector<double> seconds;
  for (int i = 0; i < windows; ++i) {
    const double start = compare::now();
    for (int k = 0; k < window; ++k) take_step();
    value.block_until_ready();
    seconds.push_back((compare::now() - start) / window);
  }
  if (!std::isfinite(value.item<float>())) {
    std::fprintf(stderr, "compare_train: the loss is not finite\n");
    return 1;
  }
  if (index == 0)
    compare::report_times("train", seconds, ", \"loss\": " + std::to_string(value.item<float>()));
  compare::report_memory(index);
}
