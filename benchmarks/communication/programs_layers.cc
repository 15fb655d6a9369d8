// SPDX-License-Identifier: Apache-2.0
// Layers and what surrounds them: norms, vocabularies, images, sequences.

#include "benchmarks/communication/programs.h"

namespace communication {
namespace {

/// A norm on the tokens that a device has, and a perceptron split over its hidden units, as Megatron has it.
auto sequence_layer(const Placed& at) {
  return [at](Array scale, Array bias, Array w1, Array w2, Array x) {
    Array y = ls::nn::layer_norm(x, scale, bias);
    Array z = ls::matmul(ls::nn::gelu(ls::matmul(y, w1)), w2);
    return at.constrain(x + z, P(nullptr, "tensor"));
  };
}

template <class F>
Measured measure_sequence(const Placed& at, const F& function, const std::vector<P>& specs) {
  return measure(at, function, specs, at({512}), at({512}), at({512, 2048}, P(nullptr, "tensor")),
                 at({2048, 512}, P("tensor")), at({4, 256, 512}, P(nullptr, "tensor")));
}

Measured sequence_norm() {
  Placed at({{"tensor", 8}});
  return measure_sequence(at, sequence_layer(at), {P(nullptr, "tensor")});
}

Measured sequence_norm_gradient() {
  Placed at({{"tensor", 8}});
  auto loss = [layer = sequence_layer(at)](Array scale, Array bias, Array w1, Array w2, Array x) {
    return mean_square(layer(scale, bias, w1, w2, x));
  };
  auto gradient = [&](Array scale, Array bias, Array w1, Array w2, Array x) {
    return ls::grad<0, 1, 2, 3, 4>(loss)(scale, bias, w1, w2, x);
  };
  return measure_sequence(at, gradient, {P(), P(), P(nullptr, "tensor"), P("tensor"), P(nullptr, "tensor")});
}

Measured vocabulary() {
  Placed at({{"data", 2}, {"tensor", 4}});
  auto loss = [](Array table, Array w, Array tokens, Array targets) {
    Array hidden = ls::tanh(ls::matmul(ls::nn::embedding(table, tokens), w));
    Array logits = ls::matmul(hidden, ls::transpose(table));
    return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits, targets));
  };
  auto step = [&](Array table, Array w, Array tokens, Array targets) {
    auto [value, grads] = ls::value_and_grad<0, 1>(loss)(table, w, tokens, targets);
    auto [of_table, of_w] = grads;
    return std::tuple(of_table, of_w, value);
  };
  const Array tokens = at({16, 128}, P("data"), ls::int32);
  return measure(at, step, {P("tensor"), P(), P()}, at({8192, 256}, P("tensor")), at({256, 256}), tokens,
                 tokens);
}

Measured embedding() {
  Placed at({{"data", 8}});
  auto loss = [](Array table, Array w, Array tokens) {
    return mean_square(ls::matmul(ls::nn::embedding(table, tokens), w));
  };
  auto gradient = [&](Array table, Array w, Array tokens) { return ls::grad<0, 1>(loss)(table, w, tokens); };
  return measure(at, gradient, {P(), P()}, at({8192, 256}), at({256, 256}),
                 at({64, 128}, P("data"), ls::int32));
}

Array conv_net(const Array& k1, const Array& k2, const Array& k3, Array x) {
  x = ls::nn::relu(ls::nn::conv(x, k1));
  x = ls::nn::relu(ls::nn::conv(x, k2, {.window_strides = {2, 2}, .padding = "SAME"}));
  x = ls::nn::max_pool(x, {2, 2}, {.strides = {2, 2}});
  return ls::nn::conv(x, k3);
}

template <class F>
Measured measure_conv(const Placed& at, const F& function, const std::vector<P>& specs) {
  return measure(at, function, specs, at({3, 3, 16, 32}), at({3, 3, 32, 32}), at({3, 3, 32, 32}),
                 at({16, 128, 128, 16}, P(nullptr, "rows")));
}

Measured conv() {
  Placed at({{"rows", 8}});
  return measure_conv(at, conv_net, {P(nullptr, "rows")});
}

Measured conv_gradient() {
  Placed at({{"rows", 8}});
  auto loss = [](Array k1, Array k2, Array k3, Array x) { return mean_square(conv_net(k1, k2, k3, x)); };
  auto gradient = [&](Array k1, Array k2, Array k3, Array x) {
    return ls::grad<0, 1, 2>(loss)(k1, k2, k3, x);
  };
  return measure_conv(at, gradient, {P(), P(), P()});
}

Measured token_shift() {
  Placed at({{"sequence", 8}});
  auto shift = [](Array mix, Array x) {
    Array before = ls::pad(x, {{0, 0}, {1, 0}, {0, 0}})[{ls::slice(), ls::slice(0, -1)}];
    return x * mix + before * (1 - mix);
  };
  const P split(nullptr, "sequence");
  return measure(at, shift, {split}, at({512}), at({8, 1024, 512}, split));
}

Measured decoding() {
  Placed at({{"sequence", 8}});
  auto decode = [](Array wq, Array wk, Array wv, Array keys, Array values, Array x, Array place) {
    auto heads = [&](const Array& w) { return ls::einsum("bm,mhf->bhf", {x, w}); };
    Array query = heads(wq), key = heads(wk), value = heads(wv);
    keys = ls::dynamic_update_slice(keys, ls::expand_dims(key, 1), {0, place, 0, 0});
    values = ls::dynamic_update_slice(values, ls::expand_dims(value, 1), {0, place, 0, 0});
    Array scores = ls::einsum("bhf,bshf->bhs", {query, keys}) / 8;
    scores = ls::where(ls::arange(4096) <= place, scores, -1e30);
    return std::tuple(ls::einsum("bhs,bshf->bhf", {ls::nn::softmax(scores), values}), keys, values);
  };
  const P split(nullptr, "sequence");
  const Array weights = at({512, 8, 64}), cache = at({8, 4096, 8, 64}, split);
  return measure(at, decode, {P(), split, split}, weights, weights, weights, cache, cache, at({8, 512}),
                 at({}, P(), ls::int32));
}

}  // namespace

void add_layers(Programs& programs) {
  programs.insert(programs.end(), {{"sequence-parallel norm", sequence_norm},
                                   {"sequence-parallel norm, gradient", sequence_norm_gradient},
                                   {"split vocabulary, gradient", vocabulary},
                                   {"embedding, data, gradient", embedding},
                                   {"conv net by image rows", conv},
                                   {"conv net by image rows, gradient", conv_gradient},
                                   {"token shift", token_shift},
                                   {"decoding, cache by sequence", decoding}});
}

}  // namespace communication
