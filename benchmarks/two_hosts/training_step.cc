// SPDX-License-Identifier: Apache-2.0
// A training step of a deep MLP, data-parallel over all processes, with its gradients' sums beside the
// backward pass and with each in its place, in turns. two_hosts.py --overlap runs it.
//   training_step --layers 8 --width 1024 --batch 128 --rounds 10
// Prints a measurement of each, as measure.h has it, on process 0: "beside", "in place" and "alone", which is
// the step of one process that exchanges nothing, with the same rows.

#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;

namespace {

using Layers = std::vector<ls::Array>;

Layers training_step(const Layers& layers, const ls::Array& x) {
  const auto loss = [&](const Layers& each) {
    ls::Array h = x;
    for (const ls::Array& w : each) h = ls::tanh(ls::matmul(h, w));
    return ls::mean(ls::square(h));
  };
  Layers next = ls::grad(loss)(layers);
  for (std::size_t i = 0; i < layers.size(); ++i) next[i] = layers[i] - 0.01 * next[i];
  return next;
}

double seconds(const std::function<Layers(const Layers&, const ls::Array&)>& step, const Layers& layers,
               const ls::Array& x) {
  const double before = compare::now();
  for (const ls::Array& each : step(layers, x)) each.block_until_ready();
  return compare::now() - before;
}

}  // namespace

int main(int argc, char** argv) {
  int num_layers = 8, rounds = 10;
  std::int64_t width = 1024, batch = 128;
  CLI::App app("A training step, with collectives beside it and without");
  app.add_option("--layers", num_layers, "number of layers");
  app.add_option("--width", width, "of each layer");
  app.add_option("--batch", batch, "rows of each process");
  app.add_option("--rounds", rounds, "steps of each kind");
  CLI11_PARSE(app, argc, argv);
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}}),
                 own = ls::Mesh(ls::local_devices(), {1}, {"data"});
  const auto inputs = [&](const ls::Mesh& over) {
    Layers layers;
    for (int i = 0; i < num_layers; ++i)
      layers.push_back(ls::device_put(ls::random::normal(ls::random::key(i), {width, width}) * 0.03,
                                      ls::NamedSharding(over, ls::P())));
    const std::vector<float> rows(static_cast<std::size_t>(batch * width), 0.5f);
    return std::pair(layers, ls::make_array_from_process_local_data(ls::NamedSharding(over, ls::P("data")),
                                                                    rows, {batch, width}));
  };
  const auto [layers, x] = inputs(mesh);
  const auto [own_layers, own_x] = inputs(own);
  const auto step = [](Layers layers, ls::Array x) { return training_step(layers, x); };
  const auto beside = ls::jit(step), in_place = ls::jit(step, {.overlap_threshold_bytes = 0}),
             alone = ls::jit(step);
  std::vector<double> times[3];
  for (int round = -2; round < rounds; ++round) {
    const double t[] = {seconds(beside, layers, x), seconds(in_place, layers, x),
                        seconds(alone, own_layers, own_x)};
    for (int k = 0; k < 3 && round >= 0; ++k) times[k].push_back(t[k]);
  }
  if (ls::process_index() != 0) return 0;
  compare::report_times("beside", times[0]);
  compare::report_times("in place", times[1]);
  compare::report_times("alone", times[2]);
}
