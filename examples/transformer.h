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

struct Norm {
  Array scale, bias;  // [width]
};

struct Layer {
  Norm norm1;
  Array query, key, value;  // [width, heads, features]
  Array out;                // [heads, features, width]
  Norm norm2;
  Array up, up_bias;      // [width, hidden], [hidden]
  Array down, down_bias;  // [hidden, width], [width]
};

struct Model {
  Array embedding;  // [vocabulary, width], and the last matrix, transposed
  Array position;   // [context, width]
  std::vector<Layer> layers;
  Norm norm;
};

inline Model init(const Config& c, const Array& key) {
  const Array keys = ls::random::split(key, 2 + 6 * c.layers);
  std::int64_t next = 0;
  auto normal = [&](const ls::Shape& shape, double deviation) {
    return deviation * ls::random::normal(ls::index(keys, next++), shape);
  };
  auto norm = [&] { return Norm{ls::ones({c.width}), ls::zeros({c.width})}; };
  const std::int64_t features = c.width / c.heads, hidden = 4 * c.width;
  const double in = 1 / std::sqrt(static_cast<double>(c.width));
  const double out = in / std::sqrt(2.0 * static_cast<double>(c.layers));

  Model model{.embedding = normal({c.vocabulary, c.width}, 0.02),
              .position = normal({c.context, c.width}, 0.02),
              .norm = norm()};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    model.layers.push_back(Layer{.norm1 = norm(),
                                 .query = normal({c.width, c.heads, features}, in),
                                 .key = normal({c.width, c.heads, features}, in),
                                 .value = normal({c.width, c.heads, features}, in),
                                 .out = normal({c.heads, features, c.width}, out),
                                 .norm2 = norm(),
                                 .up = normal({c.width, hidden}, in),
                                 .up_bias = ls::zeros({hidden}),
                                 .down = normal({hidden, c.width}, out / 2),
                                 .down_bias = ls::zeros({c.width})});
  }
  return model;
}

/// The split of a parameter over `tensor`, by its name: each device has some of the heads and of the hidden
/// units, and needs the others only for the sums in `out` and `down`. All are whole along `data`.
inline P spec(const std::string& path) {
  const std::string name = path.substr(path.rfind('.') + 1);
  if (name == "query" || name == "key" || name == "value" || name == "up") return P(nullptr, "tensor");
  if (name == "out" || name == "up_bias" || name == "down") return P("tensor");
  return P();
}

/// A model, or a tree of models such as an optimizer's state, split over a mesh with the axes `data` and
/// `tensor`.
template <class Tree>
Tree lay(const Tree& tree, const ls::Mesh& mesh) {
  return ls::tree::map_with_path(
      [&](const std::string& path, const Array& x) {
        return ls::with_sharding_constraint(x, ls::NamedSharding(mesh, spec(path)));
      },
      tree);
}

inline Array normalize(const Norm& norm, const Array& x) {
  return ls::nn::layer_norm(x, norm.scale, norm.bias);
}

inline Array apply(const Layer& layer, Array x) {
  Array y = normalize(layer.norm1, x);
  auto heads = [&](const Array& weights) { return ls::einsum("btw,whf->bthf", {y, weights}); };
  Array seen = ls::nn::dot_product_attention(heads(layer.query), heads(layer.key), heads(layer.value),
                                             {.is_causal = true});
  x = x + ls::einsum("bthf,hfw->btw", {seen, layer.out});

  y = normalize(layer.norm2, x);
  y = ls::nn::gelu(ls::matmul(y, layer.up) + layer.up_bias);
  return x + ls::matmul(y, layer.down) + layer.down_bias;
}

/// For each place of each row of `tokens`, i32[rows, places], the logits of the token that follows it.
inline Array logits(const Config& c, const Model& model, const Array& tokens) {
  const std::int64_t places = tokens.shape()[1];
  Array x = ls::nn::embedding(model.embedding, tokens) + ls::slice(model.position, {0, 0}, {places, c.width});
  for (const Layer& layer : model.layers) x = c.remat ? ls::remat(apply)(layer, x) : apply(layer, x);
  return ls::matmul(normalize(model.norm, x), ls::transpose(model.embedding));
}

/// The mean over all places but the last of -log(probability of the next token).
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
  auto rate = ls::optim::warmup_cosine_decay_schedule(0, t.peak_rate, t.warmup, t.steps, t.peak_rate / 10);
  return ls::optim::chain(
      ls::optim::clip_by_global_norm(1.0),
      ls::optim::adamw(rate, /*b1=*/0.9, /*b2=*/0.99, /*eps=*/1e-8, /*weight_decay=*/0.1));
}

}  // namespace transformer
