// SPDX-License-Identifier: Apache-2.0
#pragma once

// A decoder-only transformer over bytes: the model of train_transformer.cc.

#include <lockstep/lockstep.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

namespace ls = lockstep;
using ls::Array, ls::P;

struct Config {
  std::int64_t vocabulary = 256, context = 128, width = 128, heads = 4, layers = 4;
  bool remat = false;  ///< a layer's values are computed again for its gradient, not kept
};

struct Block {
  ls::nn::LayerNorm norm1;
  ls::nn::MultiHeadAttention attention;
  ls::nn::LayerNorm norm2;
  ls::nn::Linear up, down;
};

struct Model {
  ls::nn::Embedding tokens;     // and the last matrix, transposed
  ls::nn::Embedding positions;  // in the context
  std::vector<Block> blocks;
  ls::nn::LayerNorm norm;
};

/// The model's layers before init: their sizes, initializers, and names for the axes of each array.
inline Model layers(const Config& c) {
  using ls::nn::initializers::normal;
  const std::int64_t hidden = 4 * c.width;
  const double in = 1 / std::sqrt(static_cast<double>(c.width));
  const double out = in / std::sqrt(2.0 * static_cast<double>(c.layers));
  const ls::nn::LayerNorm norm{.features = c.width, .epsilon = 1e-5};

  Model model{.tokens = {c.vocabulary, c.width, normal(0.02), P("vocabulary", "embed")},
              .positions = {c.context, c.width, normal(0.02), P(nullptr, "embed")},
              .norm = norm};
  const Block block{.norm1 = norm,
                    .attention = {.num_heads = c.heads,
                                  .in_features = c.width,
                                  .use_bias = false,
                                  .kernel_init = normal(in),
                                  .out_kernel_init = normal(out),
                                  .axes = P("embed", "heads", nullptr)},
                    .norm2 = norm,
                    .up = {.in_features = c.width,
                           .out_features = hidden,
                           .kernel_init = normal(in),
                           .axes = P("embed", "hidden")},
                    .down = {.in_features = hidden,
                             .out_features = c.width,
                             .kernel_init = normal(out / 2),
                             .axes = P("hidden", "embed")}};
  model.blocks.assign(static_cast<std::size_t>(c.layers), block);
  return model;
}

inline Model init(const Config& c, const ls::random::Key& key) { return ls::nn::init(layers(c), key); }

/// A model, or a tree of models such as an optimizer's state, placed on a mesh with the axes `data` and
/// `tensor`: each device has some of the heads and of the hidden units, and needs the others' only for the
/// sums in attention's `out` and in `down`. Everything else is whole on each device.
template <class Tree>
Tree place(const Config& c, const Tree& tree, const ls::Mesh& mesh) {
  const auto specs =
      ls::nn::partition_rules(layers(c), {{"heads", "tensor"}, {"hidden", "tensor"}, {"embed", nullptr}});
  return ls::tree::map_with_path(
      [&](const std::string& path, const Array& x) {
        return ls::with_sharding_constraint(x, ls::NamedSharding(mesh, specs(path, x)));
      },
      tree);
}

inline Array apply(const Block& block, Array x) {
  x = x + block.attention(block.norm1(x), {.is_causal = true});
  return x + block.down(ls::nn::gelu(block.up(block.norm2(x))));
}

/// For each position of each row of `tokens`, i32[rows, positions], the logits of the next token.
inline Array logits(const Config& c, const Model& model, const Array& tokens) {
  const std::int64_t places = tokens.shape()[1];
  Array x = model.tokens(tokens) + model.positions.embedding[ls::slice(0, places)];
  for (const Block& block : model.blocks) x = c.remat ? ls::remat(apply)(block, x) : apply(block, x);
  return model.tokens.attend(model.norm(x));
}

/// The mean of -log(probability of the next token) over all positions except the last.
inline Array loss(const Config& c, const Model& model, const Array& tokens) {
  const std::int64_t rows = tokens.shape()[0], places = tokens.shape()[1] - 1;
  Array inputs = ls::slice(tokens, {0, 0}, {rows, places});
  Array targets = ls::slice(tokens, {0, 1}, {rows, places + 1});
  return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits(c, model, inputs), targets));
}

struct Training {
  double peak_rate = 2e-3;
  std::int64_t warmup = 50, steps = 500;
};

inline auto optimizer(const Training& t) {
  auto rate = ls::optim::warmup_cosine_decay_schedule({.init_value = 0,
                                                       .peak_value = t.peak_rate,
                                                       .warmup_steps = t.warmup,
                                                       .decay_steps = t.steps,
                                                       .end_value = t.peak_rate / 10});
  return ls::optim::chain(ls::optim::clip_by_global_norm(1.0),
                          ls::optim::adamw({.learning_rate = rate, .b2 = 0.99, .weight_decay = 0.1}));
}

}  // namespace transformer
