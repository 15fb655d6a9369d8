// SPDX-License-Identifier: Apache-2.0
// Training steps of examples/transformer.h, a batch of 16 rows split over the processes. First the step is
// traced, lowered and compiled, then traced and lowered once more, for what is compiled is kept. Steps are
// timed in windows that end by waiting for the loss.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <random>

#include "benchmarks/compare_jax/measure.h"
#include "examples/transformer.h"

namespace ls = lockstep;
using ls::Array, ls::P, transformer::Model;

constexpr std::int64_t kBatch = 16;

int main(int argc, char** argv) {
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  const int window = std::stoi(compare::option(argc, argv, "--window"));
  ls::initialize();
  const int index = ls::process_index();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding rows(mesh, P("data")), replicated(mesh, P());

  const transformer::Config config;
  const auto optimizer = transformer::optimizer({});
  auto [model, state] = ls::jit(
      [&] {
        const Model model = transformer::init(config, ls::random::key(0));
        return std::pair(model, optimizer.init(model));
      },
      {.out_shardings = {replicated, replicated}})();

  auto make_step = [&] {
    return ls::jit(
        [&](Model model, decltype(state) state, Array tokens) {
          auto loss = [&](const Model& model, const Array& tokens) {
            return transformer::loss(config, model, tokens);
          };
          auto [value, grads] = ls::value_and_grad(loss)(model, tokens);
          auto [updates, next] = optimizer.update(grads, state, model);
          return std::tuple(ls::optim::apply_updates(model, updates), next, value);
        },
        {.donate_argnums = {0, 1}, .name = "step"});
  };

  std::mt19937 generator(static_cast<unsigned>(index));
  const std::int64_t local = kBatch / ls::process_count(), places = config.context + 1;
  std::vector<std::int32_t> values(static_cast<std::size_t>(local * places));
  for (auto& value : values) value = static_cast<std::int32_t>(generator() % 256);
  Array tokens = ls::make_array_from_process_local_data(rows, values, {local, places});

  double start = compare::now();
  auto step = make_step();
  step.lower(model, state, tokens).compile();
  const double prepared = compare::now() - start;
  std::vector<double> traced;
  for (int i = 0; i < 3; ++i) {
    start = compare::now();
    make_step().lower(model, state, tokens);
    traced.push_back(compare::now() - start);
  }
  std::sort(traced.begin(), traced.end());

  Array loss;
  auto run = [&] {
    const double start = compare::now();
    for (int i = 0; i < window; ++i) std::tie(model, state, loss) = step(model, state, tokens);
    loss.block_until_ready();
    return (compare::now() - start) / window;
  };
  run();
  const float first = loss.item<float>();
  std::vector<double> seconds;
  for (int i = 0; i < windows; ++i) seconds.push_back(run());
  if (!(loss.item<float>() < first)) {
    std::fprintf(stderr, "compare_transformer: it does not learn\n");
    return 1;
  }
  if (index == 0) {
    std::printf("{\"measure\": \"prepare\", \"prepare_us\": %.1f, \"trace_us\": %.1f}\n", prepared * 1e6,
                traced[1] * 1e6);
    compare::report_times("train", seconds, ", \"loss\": " + std::to_string(loss.item<float>()));
  }
  compare::report_memory(index);
}
