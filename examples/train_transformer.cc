// SPDX-License-Identifier: Apache-2.0
// Trains a transformer on the Devil's Dictionary, byte by byte, on all devices of all processes, and writes
// a new entry.
//
//   $ build/release/examples/train_transformer
//   ...
//   held-out loss 2.1… nats, 3.0… bits a byte
//   ...
//   LOCKSTEP, n.   INURTNOML, n neirthas ereditul tot incan of Suandiacctilen it ththinger
//         Tone Carvedenelleed of plited suronsted of -che hout the thembles this
//
// With --checkpoint-dir it saves regularly, and a run that was ended continues from there:
// `lockstep run -n 2 --max-restarts 3 -- ... --checkpoint-dir run` continues after any failure.
//
// The devices are a mesh of `data` and `tensor`. Each has its part of a batch's rows and, with --tensor N,
// one of N parts of every layer; jit adds the collectives. The model is in transformer.h.

#include "examples/transformer.h"

#include <lockstep/lockstep.h>

#include <chrono>
#include <cstdio>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"
#include "examples/text.h"

namespace ls = lockstep;
using ls::Array, ls::P;
using transformer::Config, transformer::Model;

struct Options {
  std::string data = LOCKSTEP_DATA_DIR "/devil.dict.dz";
  Config model{.context = 64};
  std::int64_t tensor = 1, batch = 8, accumulate = 1, steps = 1500, sample = 400;
  double rate = 3e-3, temperature = 0.7;
  bool print_losses = false;
  CheckpointOptions checkpoints;
};

/// The continuation of the prompt, byte by byte, each drawn from the model's distribution.
std::string sample(const Config& config, const Model& model, const std::string& prompt, std::int64_t count,
                   double temperature) {
  auto generate = ls::jit([=](const Model& model, Array window, const ls::random::Key& keys) {
    auto next = [&](Array window, const ls::random::Key& key) {
      Array expected =
          ls::index(ls::index(transformer::logits(config, model, ls::expand_dims(window, 0)), 0), -1);
      Array token = ls::random::categorical(key, expected / temperature);
      window = ls::concatenate({ls::slice(window, {1}, {config.context}), ls::reshape(token, {1})});
      return std::pair(window, token);
    };
    return ls::scan(next, window, keys).second;
  });
  const Array window = ls::array(text::window_of(prompt, config.context));
  const ls::random::Key keys = ls::random::split(ls::random::key(1), count);
  return prompt + text::printable(generate(model, window, keys).to_host<std::int32_t>());
}

void train(const Options& options) {
  const Config& config = options.model;
  const std::string all = ls::data::read_text(options.data);
  const std::size_t held_out = all.size() / 20;
  if (held_out < static_cast<std::size_t>(2 * config.context))
    throw ls::DataError(options.data + " has " + std::to_string(all.size()) + " bytes: too few to train on");
  const std::string_view training = std::string_view(all).substr(0, all.size() - held_out);

  ls::Mesh mesh = ls::make_mesh({{"data", -1}, {"tensor", options.tensor}});
  const auto optimizer = transformer::optimizer({.peak_rate = options.rate,
                                                 .warmup = std::min<std::int64_t>(50, options.steps / 2),
                                                 .steps = options.steps});
  auto [model, state] = ls::jit(
      [&] {
        Model model = transformer::init(config, ls::random::key(0));
        return transformer::place(config, std::pair(model, optimizer.init(model)), mesh);
      },
      {.name = "init"})();

  auto loss = [&](const Model& model, const Array& tokens) {
    return transformer::loss(config, model, tokens);
  };
  auto step = ls::jit(
      [&](Model model, decltype(state) state, Array batch) {
        // The gradients of the groups of rows are computed one after the other: only one is in memory.
        auto add = [&](std::pair<Array, Model> sums, const Array& tokens) {
          auto found = ls::value_and_grad(loss)(model, tokens);
          return std::pair(ls::tree::map([](const Array& a, const Array& b) { return a + b; }, sums, found),
                           std::tuple<>());
        };
        std::pair<Array, Model> sums;
        if (options.accumulate == 1) {
          sums = ls::value_and_grad(loss)(model, ls::index(batch, 0));
        } else {
          auto zero = [](const Array& x) { return ls::zeros_like(x); };
          sums = ls::scan(add, std::pair(ls::zeros({}), ls::tree::map(zero, model)), batch).first;
        }
        auto [value, grads] =
            ls::tree::map([&](const Array& x) { return x / static_cast<double>(options.accumulate); }, sums);
        auto [updates, next] = optimizer.update(grads, state, model);
        auto placed =
            transformer::place(config, std::pair(ls::optim::apply_updates(model, updates), next), mesh);
        return std::tuple(placed.first, placed.second, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  // For each row a random window of the text; every window is used once before any is used again.
  const std::int64_t bytes = config.context + 1;
  const ls::NamedSharding by_rows(mesh, P(nullptr, "data"));
  ls::data::Loader loader(text::windows(training, bytes, 1),
                          {.batch = {options.accumulate, options.batch / options.accumulate},
                           .sharding = by_rows,
                           .epochs = std::nullopt,
                           .workers = 1});

  auto checkpoints = options.checkpoints.open();
  const std::int64_t first = restore_newest(checkpoints, loader, model, state);

  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", options.steps, speaker && !options.print_losses);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = first; i < options.steps; ++i) {
    Array value;
    std::tie(model, state, value) = step(model, state, (*loader.next())["tokens"]);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double tokens = static_cast<double>((i + 1 - first) * options.batch * config.context);
    char note[80];
    std::snprintf(note, sizeof note, "loss %.3f  %.0f tokens/s", value.item<float>(), tokens / seconds);
    progress.update(i + 1, note);
    if (options.print_losses && speaker) {
      std::printf("loss %.9g step %lld\n", value.item<float>(), static_cast<long long>(i + 1));
      std::fflush(stdout);
    }
    if (save_or_stop(checkpoints, i + 1, false, std::tuple(model, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  const auto unseen = text::windows(std::string_view(all).substr(training.size()), bytes, bytes);
  std::int64_t count = std::min<std::int64_t>(64, static_cast<std::int64_t>(unseen->size()));
  count -= count % mesh.axis_size("data");
  ls::data::Loader rest(unseen, {.batch = {1, count}, .sharding = by_rows, .seed = std::nullopt});
  const double nats = ls::jit([&](const Model& model, const Array& batch) {
                        return loss(model, ls::index(batch, 0));
                      })(model, (*rest.next())["tokens"])
                          .item<float>();
  const std::string written = sample(config, model, "\n\nLOCKSTEP, n.", options.sample, options.temperature);
  if (speaker) {
    std::printf("held-out loss %.3f nats, %.3f bits a byte\n", nats, nats / std::numbers::ln2);
    std::printf("%s\n", written.c_str());
  }
}

int main(int argc, char** argv) {
  Options options;
  CommandLine app{"Trains a transformer on a text, byte by byte, on all devices of all processes."};
  app.option("--data", options.data, "the text, compressed or not; by default as scripts/setup fetches it");
  app.option("--tensor", options.tensor, "devices that share each layer");
  app.option("--layers", options.model.layers);
  app.option("--width", options.model.width);
  app.option("--heads", options.model.heads);
  app.option("--context", options.model.context, "bytes that the model sees");
  app.option("--batch-size", options.batch, "rows of a batch, over all devices");
  app.option("--accumulate", options.accumulate, "parts of a batch that are computed one after the other");
  app.flag("--remat", options.model.remat, "compute a layer again for its gradient, to save memory");
  app.option("--steps", options.steps);
  app.option("--rate", options.rate, "the learning rate at its peak");
  app.option("--sample", options.sample, "bytes to write at the end");
  app.option("--temperature", options.temperature, "of what is written: lower is more likely text");
  app.flag("--print-losses", options.print_losses, "print the loss of each step");
  options.checkpoints.add_to(app);
  return app.run(argc, argv, [&] {
    ls::initialize();
    train(options);
  });
}
