// SPDX-License-Identifier: Apache-2.0
// Training steps of models as they come from PyTorch, with every parameter split by P("data"): scales of
// norms, biases and statistics, too.

#include <vector>

#include "benchmarks/communication/programs.h"

namespace communication {
namespace {

const P kSplit("data");

/// The product with a matrix of torch's: [out, in].
Array linear(const Array& x, const Array& w) { return ls::matmul(x, ls::transpose(w)); }

/// The parameters after a step of which the loss also returns `aux`; that, and the loss.
template <class Model, class Aux>
auto descended(const Model& model, const Model& grads, const Aux& aux, const Array& loss) {
  // A step so long that an error of the gradient is one of the result, in what --check compares.
  auto next = ls::tree::map([](const Array& p, const Array& g) { return p - 1e3 * g; }, model, grads);
  return std::tuple(next, aux, loss);
}

Array heads_of(const Array& x, std::int64_t heads) {
  const ls::Shape& shape = x.shape();
  return ls::reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

Array joined(const Array& x) {
  const ls::Shape& shape = x.shape();
  return ls::reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

constexpr std::int64_t kRows = 16, kTokens = 128, kWidth = 256, kHidden = 512, kVocabulary = 2048, kHeads = 8;

struct LlamaLayer {
  Array attention_norm, query, key, value, out, mlp_norm, gate, up, down;
};
struct Llama {
  Array embedding;
  std::vector<LlamaLayer> layers;
  Array norm, head;
};

Array llama_loss(const Llama& model, const Array& tokens) {
  constexpr std::int64_t kKeyHeads = 2;
  const Array inputs = tokens[{ls::slice(), ls::slice(0, kTokens)}];
  const Array targets = tokens[{ls::slice(), ls::slice(1, ls::none)}];
  Array x = ls::nn::embedding(model.embedding, inputs);
  for (const LlamaLayer& layer : model.layers) {
    const Array y = ls::nn::rms_norm(x, layer.attention_norm);
    const Array query = ls::nn::rotary_embedding(heads_of(linear(y, layer.query), kHeads));
    const Array key = ls::nn::rotary_embedding(heads_of(linear(y, layer.key), kKeyHeads));
    const Array value = heads_of(linear(y, layer.value), kKeyHeads);
    const Array seen = ls::nn::dot_product_attention(query, key, value, {.is_causal = true});
    x = x + linear(joined(seen), layer.out);
    const Array z = ls::nn::rms_norm(x, layer.mlp_norm);
    x = x + linear(ls::nn::silu(linear(z, layer.gate)) * linear(z, layer.up), layer.down);
  }
  const Array logits = linear(ls::nn::rms_norm(x, model.norm), model.head);
  return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits, targets));
}

Measured llama() {
  Placed at({{"data", 8}});
  const auto split = [&](const ls::Shape& shape) { return at(shape, kSplit); };
  const std::int64_t keys = kWidth / 4;
  const LlamaLayer layer{split({kWidth}),          split({kWidth, kWidth}),  split({keys, kWidth}),
                         split({keys, kWidth}),    split({kWidth, kWidth}),  split({kWidth}),
                         split({kHidden, kWidth}), split({kHidden, kWidth}), split({kWidth, kHidden})};
  const Llama model{
      split({kVocabulary, kWidth}), {layer, layer}, split({kWidth}), split({kVocabulary, kWidth})};
  auto step = [](const Llama& model, const Array& tokens) {
    auto [loss, grads] = ls::value_and_grad(llama_loss)(model, tokens);
    return descended(model, grads, std::tuple<>(), loss);
  };
  return measure(at, step, {kSplit, kSplit, P()}, model, at({kRows, kTokens + 1}, kSplit, ls::int32));
}

struct Affine {
  Array weight, bias;
};
struct BertLayer {
  Affine query, key, value, out, norm1, up, down, norm2;
};
struct Bert {
  Array tokens, positions;
  Affine norm;
  std::vector<BertLayer> layers;
  Affine pooler, classifier;
};

Array linear(const Array& x, const Affine& by) { return linear(x, by.weight) + by.bias; }

Array norm(const Array& x, const Affine& by) { return ls::nn::layer_norm(x, by.weight, by.bias, 1e-12); }

Array bert_loss(const Bert& model, const Array& tokens, const Array& present, const Array& labels) {
  const Array mask = ls::expand_dims(ls::expand_dims(present != 0, 1), 1);
  Array x =
      norm(ls::nn::embedding(model.tokens, tokens) + model.positions[ls::slice(0, kTokens)], model.norm);
  for (const BertLayer& layer : model.layers) {
    const auto heads = [&](const Affine& by) { return heads_of(linear(x, by), kHeads); };
    const Array seen = ls::nn::dot_product_attention(heads(layer.query), heads(layer.key), heads(layer.value),
                                                     {.mask = mask});
    x = norm(x + linear(joined(seen), layer.out), layer.norm1);
    x = norm(x + linear(ls::nn::gelu(linear(x, layer.up), false), layer.down), layer.norm2);
  }
  const Array pooled = ls::tanh(linear(x[{ls::slice(), 0}], model.pooler));
  return ls::mean(
      ls::nn::softmax_cross_entropy_with_integer_labels(linear(pooled, model.classifier), labels % 8));
}

Measured bert() {
  Placed at({{"data", 8}});
  const auto split = [&](const ls::Shape& shape) { return at(shape, kSplit); };
  const auto affine = [&](std::int64_t out, std::int64_t in) {
    return Affine{split({out, in}), split({out})};
  };
  const Affine square = affine(kWidth, kWidth), norm{split({kWidth}), split({kWidth})};
  const BertLayer layer{
      square, square, square, square, norm, affine(kHidden, kWidth), affine(kWidth, kHidden), norm};
  const Bert model{split({kVocabulary, kWidth}),
                   split({2 * kTokens, kWidth}),
                   norm,
                   {layer, layer},
                   square,
                   affine(8, kWidth)};
  auto step = [](const Bert& model, const Array& tokens, const Array& present, const Array& labels) {
    auto [loss, grads] = ls::value_and_grad(bert_loss)(model, tokens, present, labels);
    return descended(model, grads, std::tuple<>(), loss);
  };
  const Array tokens = at({kRows, kTokens}, kSplit, ls::int32);
  return measure(at, step, {kSplit, kSplit, P()}, model, tokens, tokens, at({kRows}, kSplit, ls::int32));
}

/// Batch norm: of the whole batch's statistics, which the moving averages follow.
struct BatchNorm {
  Array scale, bias;
};
struct Statistics {
  Array mean, variance;
};
struct ConvBlock {
  Array conv1;
  BatchNorm norm1;
  Array conv2;
  BatchNorm norm2;
  Array shortcut;
  BatchNorm shortcut_norm;
};
struct ResNet {
  Array stem;
  BatchNorm norm;
  std::vector<ConvBlock> blocks;
  Affine head;
};

/// Images [batch, height, width, features], and kernels as torch has them.
Array convolved(const Array& x, const Array& kernel, std::int64_t stride = 1) {
  return ls::nn::conv_general_dilated(
      x, kernel,
      {.window_strides = {stride, stride}, .padding = "SAME", .dimension_numbers = {"NHWC", "OIHW", "NHWC"}});
}

using MovingStatistics = std::vector<Statistics>;

class ResNetStep {
 public:
  explicit ResNetStep(const MovingStatistics& before) : before_(before) {}

  Array logits(const ResNet& model, const Array& images) {
    Array x = ls::nn::relu(normalized(convolved(images, model.stem), model.norm));
    std::int64_t stride = 1;
    for (const ConvBlock& block : model.blocks) {
      Array y = ls::nn::relu(normalized(convolved(x, block.conv1, stride), block.norm1));
      y = normalized(convolved(y, block.conv2), block.norm2);
      x = ls::nn::relu(y + normalized(convolved(x, block.shortcut, stride), block.shortcut_norm));
      stride = 2;
    }
    return linear(ls::mean(x, {.axis = {1, 2}}), model.head);
  }

  const MovingStatistics& after() const { return after_; }

 private:
  Array normalized(const Array& x, const BatchNorm& by) {
    const ls::ReduceOptions all{.axis = {0, 1, 2}};
    const Array mean = ls::mean(x, all), variance = ls::mean(ls::square(x), all) - ls::square(mean);
    const Statistics& before = before_[after_.size()];
    after_.push_back({0.9 * before.mean + 0.1 * mean, 0.9 * before.variance + 0.1 * variance});
    return (x - mean) * ls::rsqrt(variance + 1e-5) * by.scale + by.bias;
  }

  const MovingStatistics& before_;
  MovingStatistics after_;
};

Measured resnet() {
  Placed at({{"data", 8}});
  const auto split = [&](const ls::Shape& shape) { return at(shape, kSplit); };
  const auto norm = [&](std::int64_t n) { return BatchNorm{split({n}), split({n})}; };
  const auto block = [&](std::int64_t in, std::int64_t out) {
    return ConvBlock{split({out, in, 3, 3}), norm(out), split({out, out, 3, 3}), norm(out),
                     split({out, in, 1, 1}), norm(out)};
  };
  const ResNet model{
      split({32, 3, 3, 3}), norm(32), {block(32, 32), block(32, 64)}, {split({16, 64}), split({16})}};
  MovingStatistics moving;
  for (const std::int64_t n : {32, 32, 32, 32, 64, 64, 64}) moving.push_back({split({n}), split({n})});
  auto step = [](const ResNet& model, const MovingStatistics& before, const Array& images,
                 const Array& labels) {
    auto loss = [&](const ResNet& model) {
      ResNetStep step(before);
      const Array logits = step.logits(model, images);
      return std::pair(ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits, labels % 16)),
                       step.after());
    };
    auto [result, grads] = ls::value_and_grad(loss)(model);
    return descended(model, grads, result.second, result.first);
  };
  return measure(at, step, {kSplit, kSplit, P()}, model, moving, at({32, 32, 32, 3}, kSplit),
                 at({32}, kSplit, ls::int32));
}

}  // namespace

void add_fsdp(Programs& programs) {
  programs.insert(programs.end(), {{"Llama, fsdp of all parameters", llama},
                                   {"BERT, fsdp of all parameters", bert},
                                   {"ResNet, fsdp of all parameters", resnet}});
}

}  // namespace communication
