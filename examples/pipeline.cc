// SPDX-License-Identifier: Apache-2.0
// Trains a stack of layers by pipeline parallelism: each device has some of the layers, and microbatches pass
// from device to device (Huang and others, "GPipe", 2019).
//
//   $ lockstep run -n 4 -- build/release/examples/pipeline
//   [0] 4 stages, 8 microbatches: the bubble is 0.27 of the time
//   [0] loss and gradients equal those without a pipeline, to 1e-5
//   [0] in each step: permute 3.0 KiB over stage (4 devices) at pipeline.cc:59, 11 times
//   [0] in each step: permute 3.0 KiB over stage (4 devices) at pipeline.cc:59, 11 times
//   [0] in each step: all-reduce 4 B over stage (4 devices) at pipeline.cc:64
//   [0] step  0: loss 6.01
//   [0] step 15: loss 0.29
//   [0] step 30: loss 0.13

#include <lockstep/lockstep.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/support/command_line.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P;

constexpr std::int64_t kLayers = 8, kWidth = 64, kBatch = 96;

struct Layer {
  nn::Linear up{.in_features = kWidth, .out_features = 4 * kWidth};
  nn::Linear down{.in_features = 4 * kWidth, .out_features = kWidth};

  Array operator()(const Array& x) const { return x + down(ls::tanh(up(x))); }
};

/// All layers of a stack, whose arrays have a first dimension of layers.
Array apply(const Layer& stack, const Array& x) {
  auto one = [](const Array& x, const Layer& layer) { return std::pair(layer(x), std::tuple<>()); };
  return ls::scan(one, x, stack).first;
}

Array loss(const Layer& stack, const Array& x, const Array& y) {
  return ls::mean(ls::square(apply(stack, x) - y));
}

/// The same on each device, which has the layers of its stage. x and y are f32[microbatches,rows,width].
Array pipelined_loss(const Layer& stack, const Array& x, const Array& y) {
  const int stages = static_cast<int>(ls::axis_size("stage"));
  const Array stage = ls::axis_index("stage");
  std::vector<std::pair<int, int>> to_next;
  for (int i = 0; i + 1 < stages; ++i) to_next.emplace_back(i, i + 1);

  // In tick t, stage i computes microbatch t - i, or, in the bubble, what nobody uses.
  auto tick = [&](const Array& received, const Array& microbatch) {
    const Array result = ls::remat(apply)(stack, ls::where(stage == 0, microbatch, received));
    return std::pair(ls::ppermute(result, "stage", to_next), result);
  };
  const Array inputs = ls::pad(x, {{0, stages - 1}, {0, 0}, {0, 0}});
  const Array results = ls::scan(tick, ls::zeros_like(x[0]), inputs).second;
  const Array error = ls::mean(ls::square(results[{ls::slice(stages - 1, ls::none)}] - y));
  return ls::pmean(ls::psum(ls::where(stage == stages - 1, error, 0.f), "stage"), "data");
}

void train(int microbatches, int data) {
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"data", data}, {"stage", -1}});
  const int stages = static_cast<int>(mesh.axis_size("stage"));
  const P layers("stage"), rows(nullptr, "data");
  auto sharding = [&](const P& spec) { return ls::NamedSharding(mesh, spec); };

  const auto init = ls::vmap([](const ls::random::Key& key) { return nn::init(Layer(), key); });
  Layer stack =
      ls::jit(init, {.out_shardings = {sharding(layers)}})(ls::random::split(ls::random::key(0), kLayers));
  const Array batch = ls::random::normal(ls::random::key(1), {kBatch, kWidth});
  const Array x = ls::device_put(ls::reshape(batch, {microbatches, -1, kWidth}), sharding(rows));
  const Array y = ls::sin(2. * ls::flip(x, -1));

  const auto pipelined = ls::value_and_grad(
      ls::shard_map(pipelined_loss, {.mesh = mesh, .in_specs = {layers, rows, rows}, .out_specs = {P()}}));
  const auto result = ls::jit(pipelined)(stack, x, y);
  const auto plain = ls::jit(ls::value_and_grad(loss))(ls::device_put(stack, sharding(P())), x, y);
  const Array difference = ls::optim::global_norm(ls::tree::map(std::minus(), result, plain));
  const bool equal = (difference / ls::optim::global_norm(plain)).item<float>() < 1e-5f;

  const auto adam = ls::optim::adam(2e-3);
  auto state = adam.init(stack);
  auto update = [&](const Layer& stack, const decltype(state)& state, const Array& x, const Array& y) {
    const auto [value, grads] = pipelined(stack, x, y);
    const auto [updates, next] = adam.update(grads, state);
    return std::tuple(ls::optim::apply_updates(stack, updates), next, value);
  };
  const auto step = ls::jit(update, {.donate_argnums = {0, 1}});

  const bool speaker = ls::process_index() == 0;
  if (speaker) {
    std::printf("%d stages, %d microbatches: the bubble is %.2f of the time\n", stages, microbatches,
                (stages - 1.) / (microbatches + stages - 1));
    std::printf("loss and gradients %s those without a pipeline, to 1e-5\n", equal ? "equal" : "differ from");
    for (const auto& line : step.lower(stack, state, x, y).communication())
      std::printf("in each step: %s\n", line.to_string().c_str());
  }
  for (int i = 0; i <= 30; ++i) {
    Array value;
    std::tie(stack, state, value) = step(stack, state, x, y);
    if (speaker && i % 15 == 0) std::printf("step %2d: loss %.2f\n", i, value.item<float>());
  }
}

int main(int argc, char** argv) {
  int microbatches = 8, data = 1;
  CommandLine app{"Trains a stack of layers, some of which are on each device."};
  app.option("--microbatches", microbatches, "parts of a batch, which pass through the pipeline");
  app.option("--data", data, "devices that share the rows of a microbatch");
  return app.run(argc, argv, [&] { train(microbatches, data); });
}
