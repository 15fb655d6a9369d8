// SPDX-License-Identifier: Apache-2.0
// Trains a Vision Transformer to read handwritten digits, on all devices of all processes.
//
//   $ lockstep run -n 4 -- build/release/examples/train_vit
//   ...
//   [0] test accuracy 0.883
//
// A picture of 8 x 8 pixels is cut into 16 patches. Each becomes a vector, and a transformer compares all of
// them with each other (Dosovitskiy and others, "An Image is Worth 16x16 Words", 2020). The batches are split
// over the devices, and the model is on every device.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/digits.h"
#include "examples/support/command_line.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P;

struct Options {
  std::string data = LOCKSTEP_DATA_DIR "/digits.csv.gz";
  std::int64_t width = 64, heads = 4, layers = 3;
  double dropout = 0.1, rate = 2e-3;
  std::int64_t epochs = 40, batch = 128;
  bool print_losses = false;
};

struct Block {
  nn::LayerNorm norm1;
  nn::MultiHeadAttention attention;
  nn::LayerNorm norm2;
  nn::Linear up, down;
  nn::Dropout dropout;

  /// Without a key, as when the model is used, nothing is dropped.
  Array operator()(Array x, const std::optional<ls::random::Key>& key) const {
    x = x + dropout(attention(norm1(x)), nn::key_at(key, "attention"));
    return x + dropout(down(nn::gelu(up(norm2(x)))), nn::key_at(key, "mlp"));
  }
};

struct Vit {
  nn::Conv patches;
  nn::Embedding positions;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  /// f32[batch,8,8,1] to the logits of the ten digits, f32[batch,10].
  Array operator()(const Array& images, const std::optional<ls::random::Key>& key) const {
    Array x = patches(images);  // f32[batch,4,4,width]
    x = ls::reshape(x, {x.shape()[0], 16, -1}) + positions.embedding;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      x = blocks[i](x, nn::key_at(key, "blocks[" + std::to_string(i) + "]"));
    return head(norm(ls::mean(x, 1)));
  }
};

/// The model's layers. nn::init makes their arrays.
Vit layers(const Options& o) {
  const Block block{.norm1 = {.features = o.width},
                    .attention = {.num_heads = o.heads, .in_features = o.width},
                    .norm2 = {.features = o.width},
                    .up = {.in_features = o.width, .out_features = 4 * o.width},
                    .down = {.in_features = 4 * o.width, .out_features = o.width},
                    .dropout = {.rate = o.dropout}};
  return {.patches = {.in_features = 1,
                      .out_features = o.width,
                      .kernel_size = {2, 2},
                      .options = {.window_strides = {2, 2}, .padding = "VALID"}},
          .positions = {.num_embeddings = 16,
                        .features = o.width,
                        .embedding_init = nn::initializers::normal(0.02)},
          .blocks = std::vector(static_cast<std::size_t>(o.layers), block),
          .norm = {.features = o.width},
          .head = {.in_features = o.width, .out_features = 10}};
}

Array loss(const Vit& vit, const ls::data::Batch& batch, const ls::random::Key& key) {
  return ls::mean(nn::softmax_cross_entropy_with_integer_labels(vit(batch["image"], key), batch["label"]));
}

Array accuracy(const Vit& vit, const ls::data::Batch& batch) {
  return ls::mean(ls::argmax(vit(batch["image"], std::nullopt), -1) == batch["label"]);
}

/// Trains on the first 1,438 digits and says how many of the other 359 are then read right. Those were
/// written by other people.
void train(const Options& o) {
  const ls::data::SourcePtr all = digits(o.data);
  const ls::data::SourcePtr training = ls::data::slice(all, 0, 1438);
  const ls::data::SourcePtr test = ls::data::slice(all, 1438, all->size());
  const std::int64_t steps = o.epochs * 1438 / o.batch;

  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());
  const auto rate =
      ls::optim::warmup_cosine_decay_schedule({.init_value = 0,
                                               .peak_value = o.rate,
                                               .warmup_steps = std::max<std::int64_t>(1, steps / 10),
                                               .decay_steps = steps});
  const auto optimizer = ls::optim::adamw({.learning_rate = rate, .weight_decay = 0.05});
  auto [vit, state] = ls::jit(
      [&] {
        Vit vit = nn::init(layers(o), ls::random::key(0));
        return std::pair(vit, optimizer.init(vit));
      },
      {.out_shardings = {replicated, replicated}, .name = "init"})();

  auto step = ls::jit(
      [&](Vit vit, decltype(state) state, const ls::data::Batch& batch, const Array& i) {
        const ls::random::Key key = ls::random::fold_in(ls::random::key(1), i);  // another one for each step
        auto [value, grads] = ls::value_and_grad(loss)(vit, batch, key);
        auto [updates, next] = optimizer.update(grads, state, vit);
        return std::tuple(ls::optim::apply_updates(vit, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  ls::data::Loader loader(
      training, {.batch = {o.batch}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1, .workers = 1});
  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", steps, speaker && !o.print_losses);
  for (std::int64_t i = 0; i < steps; ++i) {
    Array value;
    std::tie(vit, state, value) = step(vit, state, *loader.next(), i);
    if (o.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    progress.update(i + 1, "loss " + std::to_string(value.item<float>()));
  }

  ls::data::Loader held_out(test, {.batch = {359}, .sharding = replicated});
  const Array score = ls::jit(accuracy)(vit, *held_out.next());
  if (speaker) std::printf("test accuracy %.3f\n", score.item<float>());
}

int main(int argc, char** argv) {
  Options options;
  CommandLine app{"Trains a Vision Transformer to read handwritten digits."};
  app.option("--data", options.data, "digits.csv.gz, as scripts/setup fetches it");
  app.option("--width", options.width, "numbers that stand for a patch");
  app.option("--heads", options.heads);
  app.option("--layers", options.layers);
  app.option("--dropout", options.dropout, "the part of what a layer adds that is dropped in training");
  app.option("--rate", options.rate, "the learning rate at its peak");
  app.option("--epochs", options.epochs, "times through the training set");
  app.option("--batch-size", options.batch, "rows of a batch, over all devices");
  app.flag("--print-losses", options.print_losses, "print the loss of each step");
  return app.run(argc, argv, [&] {
    ls::initialize();
    train(options);
  });
}
