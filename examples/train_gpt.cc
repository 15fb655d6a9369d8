// SPDX-License-Identifier: Apache-2.0
// Trains a GPT on the Devil's Dictionary, byte by byte, on all devices of all processes, and writes an entry
// of its own.
//
//   $ lockstep run -n 4 -- build/release/examples/train_gpt --tensor 2
//   ...
//   [0] held-out loss 1.596 nats, 2.303 bits a byte
//   [0] LOCKSTEP, n. ...
//
// The devices are a mesh of `fsdp` and `tensor`. No device has the whole model or the whole of adam's state:
// over `tensor` each has some of the heads, of the hidden units and of the vocabulary, and computes with
// those; over `fsdp` each has some rows of a batch and a part of every matrix, which is gathered where it is
// used. The layers name the axes of their arrays, and `train` says which axes of the mesh those are.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"
#include "examples/text.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P;

struct Options {
  std::string data = LOCKSTEP_DATA_DIR "/devil.dict.dz";
  std::int64_t layers = 4, width = 128, heads = 4, context = 64;
  std::int64_t tensor = 1, batch = 16, steps = 1500, sample = 400;
  double rate = 3e-3, temperature = 0.7;
  bool print_losses = false;
  CheckpointOptions checkpoints;
};

struct Block {
  nn::RMSNorm norm1;
  nn::MultiHeadAttention attention;
  nn::RMSNorm norm2;
  nn::Linear gate, up, down;

  Array operator()(Array x) const {
    x = x + attention(norm1(x), {.is_causal = true});
    const Array y = norm2(x);
    return x + down(nn::silu(gate(y)) * up(y));
  }
};

struct Gpt {
  nn::Embedding tokens;  // and the last matrix, transposed
  std::vector<Block> blocks;
  nn::RMSNorm norm;

  /// For each place of each row of tokens, i32[batch,places], the logits of the token that follows it.
  Array operator()(const Array& ids) const {
    Array x = tokens(ids);
    for (const Block& block : blocks) x = block(x);
    return tokens.attend(norm(x));
  }
};

/// The model's layers, with a name for each axis that may be split. nn::init makes their arrays.
Gpt layers(const Options& o) {
  const std::int64_t hidden = 3 * o.width;
  const nn::Linear into{
      .in_features = o.width, .out_features = hidden, .use_bias = false, .axes = P("embed", "hidden")};
  const Block block{
      .norm1 = {.features = o.width},
      .attention = {.num_heads = o.heads,
                    .in_features = o.width,
                    .use_bias = false,
                    .rotary_base = 10000,
                    .axes = P("embed", "heads", nullptr)},
      .norm2 = {.features = o.width},
      .gate = into,
      .up = into,
      .down = {
          .in_features = hidden, .out_features = o.width, .use_bias = false, .axes = P("hidden", "embed")}};
  return {.tokens = {.num_embeddings = 256, .features = o.width, .axes = P("vocabulary", "embed")},
          .blocks = std::vector(static_cast<std::size_t>(o.layers), block),
          .norm = {.features = o.width}};
}

/// The mean over all places but the last of -log(probability of the next token).
Array loss(const Gpt& gpt, const Array& tokens) {
  const Array logits = gpt(tokens[{ls::slice(), ls::slice(0, -1)}]);
  return ls::mean(
      nn::softmax_cross_entropy_with_integer_labels(logits, tokens[{ls::slice(), ls::slice(1, ls::none)}]));
}

/// The prompt and what follows it, one byte after the other, each drawn from what the model expects there.
std::string sample(const Gpt& gpt, const std::string& prompt, const Options& o) {
  auto generate = ls::jit([&](const Gpt& gpt, const Array& window, const ls::random::Key& keys) {
    auto next = [&](const Array& window, const ls::random::Key& key) {
      const Array logits = gpt(ls::expand_dims(window, 0))[{0, -1}];
      const Array token = ls::random::categorical(key, logits / o.temperature);
      return std::pair(ls::append(window[ls::slice(1, ls::none)], token), token);
    };
    return ls::scan(next, window, keys).second;
  });
  const Array window = ls::array(text::window_of(prompt, o.context));
  const ls::random::Key keys = ls::random::split(ls::random::key(1), o.sample);
  return prompt + text::printable(generate(gpt, window, keys).to_host<std::int32_t>());
}

void train(const Options& o) {
  const std::string all = ls::data::read_text(o.data);
  const std::string_view training = std::string_view(all).substr(0, all.size() - all.size() / 20);
  const std::string_view unseen = std::string_view(all).substr(training.size());
  const std::string prompt = "\n\nLOCKSTEP, n.";
  if (std::ssize(unseen) < 64 * (o.context + 1) || o.context < std::ssize(prompt))
    throw ls::DataError(o.data + " has too few bytes, or --context is below " +
                        std::to_string(prompt.size()));

  const ls::Mesh mesh = ls::make_mesh({{"fsdp", -1}, {"tensor", o.tensor}});
  const ls::NamedSharding by_rows(mesh, P("fsdp")), replicated(mesh, P());
  const auto placed = nn::named_shardings(
      mesh, nn::partition_rules(
                layers(o),
                {{"vocabulary", "tensor"}, {"heads", "tensor"}, {"hidden", "tensor"}, {"embed", "fsdp"}}));
  const auto rate =
      ls::optim::warmup_cosine_decay_schedule({.init_value = 0,
                                               .peak_value = o.rate,
                                               .warmup_steps = std::min<std::int64_t>(50, o.steps / 2),
                                               .decay_steps = o.steps,
                                               .end_value = o.rate / 10});
  const auto optimizer =
      ls::optim::chain(ls::optim::clip_by_global_norm(1.0),
                       ls::optim::adamw({.learning_rate = rate, .b2 = 0.99, .weight_decay = 0.1}));
  auto [gpt, state] = ls::jit(
      [&] {
        Gpt gpt = nn::init(layers(o), ls::random::key(0));
        return std::pair(gpt, optimizer.init(gpt));
      },
      {.out_shardings = {placed, placed}, .name = "init"})();

  auto step = ls::jit(
      [&](Gpt gpt, decltype(state) state, const Array& tokens) {
        auto [value, grads] = ls::value_and_grad(loss)(gpt, tokens);
        auto [updates, next] = optimizer.update(grads, state, gpt);
        return std::tuple(ls::optim::apply_updates(gpt, updates), next, value);
      },
      {.out_shardings = {placed, placed, replicated}, .donate_argnums = {0, 1}, .name = "step"});

  // A window from anywhere in the text for each row; each window comes once before any comes again.
  ls::data::Loader loader(
      text::windows(training, o.context + 1, 1),
      {.batch = {o.batch}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1, .workers = 1});
  auto checkpoints = o.checkpoints.open();
  const std::int64_t first = restore_newest(checkpoints, loader, gpt, state);

  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", o.steps, speaker && !o.print_losses);
  for (std::int64_t i = first; i < o.steps; ++i) {
    Array value;
    std::tie(gpt, state, value) = step(gpt, state, (*loader.next())["tokens"]);
    if (o.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    progress.update(i + 1, "loss " + std::to_string(value.item<float>()));
    if (save_or_stop(checkpoints, i + 1, i + 1 == o.steps, std::tuple(gpt, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  // 64 windows that the model has not seen, on every device.
  ls::data::Loader rest(text::windows(unseen, o.context + 1, o.context + 1),
                        {.batch = {64}, .sharding = replicated, .seed = std::nullopt});
  const double nats = ls::jit(loss)(gpt, (*rest.next())["tokens"]).item<float>();
  const std::string written = sample(gpt, prompt, o);
  if (!speaker) return;
  std::printf("held-out loss %.3f nats, %.3f bits a byte\n%s\n", nats, nats / std::numbers::ln2,
              written.c_str());
}

int main(int argc, char** argv) {
  Options options;
  CommandLine app{"Trains a GPT on a text, byte by byte, on all devices of all processes."};
  app.option("--data", options.data, "the text, compressed or not; by default as scripts/setup fetches it");
  app.option("--tensor", options.tensor, "devices that share each layer; the others share its parameters");
  app.option("--layers", options.layers);
  app.option("--width", options.width);
  app.option("--heads", options.heads);
  app.option("--context", options.context, "bytes that the model sees");
  app.option("--batch-size", options.batch, "rows of a batch, over all devices");
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
