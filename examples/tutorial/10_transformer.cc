// SPDX-License-Identifier: Apache-2.0
// Step 10: a transformer over `data` and `tensor`: the model of examples/transformer.h learns to count.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/10_transformer
//   [0] step   1: loss 2.8
//   [0] step 100: loss 0.0
//   [0] after 3 4 5 6 7 8 9 10 comes 11

#include "examples/transformer.h"

#include <lockstep/lockstep.h>

#include <cstdio>
#include <map>
#include <string>

namespace ls = lockstep;
using ls::Array, ls::P;
using transformer::Config, transformer::Model;

int main() {
  ls::initialize();
  const Config config{.vocabulary = 16, .context = 8, .width = 32, .heads = 4, .layers = 2};
  ls::Mesh mesh = ls::make_mesh({{"data", 2}, {"tensor", -1}});
  const auto optimizer = transformer::optimizer({.peak_rate = 1e-2, .warmup = 10, .steps = 100});

  // Each device has some of the heads and of the hidden units of every layer (transformer::place).
  auto [model, state] = ls::jit([&] {
    Model model = transformer::place(config, transformer::init(config, ls::random::key(0)), mesh);
    return std::pair(model, transformer::place(config, optimizer.init(model), mesh));
  })();

  // Rows that count modulo 16, each from a different start: 5 6 7 ... 15 0 1.
  ls::data::SourcePtr rows = ls::data::from_function(16, "counting", [](std::uint64_t i) {
    std::vector<std::int32_t> tokens;
    for (std::uint64_t k = 0; k < 9; ++k) tokens.push_back(static_cast<std::int32_t>((i + k) % 16));
    return ls::data::Record{{"tokens", ls::data::Field::of(tokens)}};
  });
  ls::data::Loader loader(
      rows, {.batch = {8}, .sharding = ls::NamedSharding(mesh, P("data")), .epochs = std::nullopt});

  auto step = ls::jit(
      [&](Model model, decltype(state) state, const Array& tokens) {
        auto [value, grads] = ls::value_and_grad([&](const Model& model, const Array& tokens) {
          return transformer::loss(config, model, tokens);
        })(model, tokens);
        auto [updates, next] = optimizer.update(grads, state, model);
        return std::tuple(transformer::place(config, ls::optim::apply_updates(model, updates), mesh),
                          transformer::place(config, next, mesh), value);
      },
      {.donate_argnums = {0, 1}});

  for (int i = 1; i <= 100; ++i) {
    Array value;
    std::tie(model, state, value) = step(model, state, (*loader.next())["tokens"]);
    if ((i == 1 || i == 100) && ls::process_index() == 0)
      std::printf("step %3d: loss %.1f\n", i, value.item<float>());
  }

  // Which number follows 3 4 5 6 7 8 9 10? The row is on every device, and so is the result.
  auto next = ls::jit([&](const Model& model, const Array& tokens) {
    return ls::argmax(transformer::logits(config, model, tokens), -1)[{0, -1}];
  });
  Array answer =
      next(model, ls::device_put(ls::array(std::vector<std::int32_t>{3, 4, 5, 6, 7, 8, 9, 10}, {1, 8}),
                                 ls::NamedSharding(mesh, P())));
  if (ls::process_index() == 0) std::printf("after 3 4 5 6 7 8 9 10 comes %d\n", answer.item<std::int32_t>());
}
