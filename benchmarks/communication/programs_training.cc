// SPDX-License-Identifier: Apache-2.0
// Steps of training: perceptrons, accumulated gradients, a transformer.

#include <vector>

#include "benchmarks/communication/programs.h"
#include "examples/transformer.h"

namespace communication {
namespace {

/// A step so long that an error of the gradient is one of the result, in what --check compares.
Array descend(const Array& parameter, const Array& gradient) { return parameter - 1e4 * gradient; }

Array mlp_loss(const Array& w1, const Array& w2, const Array& x, const Array& y) {
  return mean_square(ls::matmul(ls::tanh(ls::matmul(x, w1)), w2) - y);
}

auto mlp_step(const Array& w1, const Array& w2, const Array& x, const Array& y) {
  auto [loss, grads] = ls::value_and_grad<0, 1>(mlp_loss)(w1, w2, x, y);
  auto [g1, g2] = grads;
  return std::tuple(descend(w1, g1), descend(w2, g2), loss);
}

Measured mlp_data() {
  Placed at({{"data", 8}});
  return measure(at, mlp_step, {P(), P(), P()}, at({512, 2048}), at({2048, 512}), at({1024, 512}, P("data")),
                 at({1024, 512}, P("data")));
}

Measured mlp_fsdp() {
  Placed at({{"fsdp", 8}});
  const P rows("fsdp");
  return measure(at, mlp_step, {rows, rows, P()}, at({512, 2048}, rows), at({2048, 512}, rows),
                 at({1024, 512}, rows), at({1024, 512}, rows));
}

/// Gathered weights kept from the forward to the backward pass take no more than `kept_bytes`.
std::function<Measured()> fsdp_layers(std::int64_t kept_bytes) {
  return [=] {
    Placed at({{"fsdp", 8}});
    const P rows("fsdp");
    auto loss = [](const std::vector<Array>& weights, Array x) {
      for (const Array& w : weights) x = x + 0.1 * ls::tanh(ls::matmul(x, w));
      return mean_square(x);
    };
    auto step = [=](const std::vector<Array>& weights, Array x) {
      auto [value, grads] = ls::value_and_grad(loss)(weights, x);
      std::vector<Array> next;
      for (std::size_t i = 0; i < weights.size(); ++i) next.push_back(descend(weights[i], grads[i]));
      return std::pair(next, value);
    };
    const std::vector<Array> weights(12, at({1024, 1024}, rows));
    return measure(
        ls::jit(step, {.out_shardings = at.results({rows, P()}), .kept_gathered_bytes = kept_bytes}), weights,
        at({4096, 1024}, rows));
  };
}

Measured mlp_tensor() {
  Placed at({{"data", 2}, {"tensor", 4}});
  const P columns(nullptr, "tensor"), rows("tensor"), batch("data");
  auto step = [](Array w1, Array w2, Array x, Array y) {
    auto [loss, grads] = ls::value_and_grad<0, 1, 2>(mlp_loss)(w1, w2, x, y);
    auto [g1, g2, gx] = grads;
    return std::tuple(descend(w1, g1), descend(w2, g2), gx, loss);
  };
  return measure(at, step, {columns, rows, batch, P()}, at({512, 2048}, columns), at({2048, 512}, rows),
                 at({1024, 512}, batch), at({1024, 512}, batch));
}

Measured scanned_layers() {
  Placed at({{"fsdp", 4}, {"tensor", 2}});
  const P up(nullptr, "fsdp", "tensor"), down(nullptr, "tensor", "fsdp"), batch("fsdp");
  auto loss = [&](Array w1, Array w2, Array x) {
    auto layer = [&](Array h, std::pair<Array, Array> weights) {
      auto [w1, w2] = weights;
      Array next = h + ls::matmul(ls::nn::gelu(ls::matmul(h, w1)), w2);
      return std::pair(at.constrain(next, P("fsdp")), std::tuple<>());
    };
    return mean_square(ls::scan(ls::remat(layer), x, std::pair(w1, w2)).first);
  };
  auto step = [&](Array w1, Array w2, Array x) {
    auto [value, grads] = ls::value_and_grad<0, 1>(loss)(w1, w2, x);
    auto [g1, g2] = grads;
    return std::tuple(descend(w1, g1), descend(w2, g2), value);
  };
  return measure(at, step, {up, down, P()}, at({8, 512, 2048}, up), at({8, 2048, 512}, down),
                 at({1024, 512}, batch));
}

Measured microbatches() {
  Placed at({{"data", 8}});
  auto step = [](Array w1, Array w2, Array x, Array y) {
    auto add = [&](std::pair<Array, Array> sums, std::pair<Array, Array> batch) {
      auto [g1, g2] = ls::grad<0, 1>(mlp_loss)(w1, w2, batch.first, batch.second);
      return std::pair(std::pair(sums.first + g1, sums.second + g2), std::tuple<>());
    };
    const std::pair none(ls::zeros({512, 2048}), ls::zeros({2048, 512}));
    auto [g1, g2] = ls::scan(add, none, std::pair(x, y)).first;
    return std::tuple(descend(w1, g1 / 8), descend(w2, g2 / 8));
  };
  const P batches(nullptr, "data");
  return measure(at, step, {P(), P()}, at({512, 2048}), at({2048, 512}), at({8, 256, 512}, batches),
                 at({8, 256, 512}, batches));
}

/// How the parameters are split, by their names.
const ls::tree::Rules<P> kTransformerSpecs{
    {"*query.kernel", P("fsdp", "tensor")},       {"*key.kernel", P("fsdp", "tensor")},
    {"*value.kernel", P("fsdp", "tensor")},       {"*out.kernel", P("tensor", nullptr, "fsdp")},
    {"*up.kernel", P("fsdp", "tensor")},          {"*up.bias", P("tensor")},
    {"*down.kernel", P("tensor", "fsdp")},        {"*tokens.embedding", P("tensor", "fsdp")},
    {"*positions.embedding", P(nullptr, "fsdp")}, {"*", P()}};

Measured transformer_step() {
  Placed at({{"data", 2}, {"fsdp", 2}, {"tensor", 2}});
  const transformer::Config config{.vocabulary = 4096, .context = 256, .width = 256, .heads = 8, .layers = 2};
  const auto optimizer = transformer::optimizer({});
  const P batch({"data", "fsdp"});

  auto lay = [&](const auto& tree) {
    return ls::tree::map_with_path(
        [&](const std::string& path, const Array& x) { return at.constrain(x, kTransformerSpecs(path, x)); },
        tree);
  };
  auto loss = [&](const transformer::Model& model, const Array& tokens) {
    const std::int64_t places = tokens.shape()[1] - 1;
    Array inputs = tokens[{ls::slice(), ls::slice(0, places)}];
    Array targets = tokens[{ls::slice(), ls::slice(1, ls::none)}];
    Array x = model.tokens(inputs) + model.positions.embedding[ls::slice(0, places)];
    x = at.constrain(x, batch);
    for (const auto& block : model.blocks) x = at.constrain(transformer::apply(block, x), batch);
    Array logits = model.tokens.attend(model.norm(x));
    return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits, targets));
  };
  auto init = [&] {
    auto model = lay(transformer::init(config, ls::random::key(0)));
    return std::pair(model, lay(optimizer.init(model)));
  };
  auto [model, state] = ls::jit(init)();
  auto step = [&](transformer::Model model, decltype(state) state, Array tokens) {
    auto [value, grads] = ls::value_and_grad(loss)(model, tokens);
    auto [updates, next] = optimizer.update(grads, state, model);
    return std::tuple(lay(ls::optim::apply_updates(model, updates)), lay(next), value);
  };
  return measure(ls::jit(step), model, state, at({16, 257}, batch, ls::int32));
}

}  // namespace

void add_training(Programs& programs) {
  programs.insert(programs.end(), {{"mlp, data", mlp_data},
                                   {"mlp, fsdp", mlp_fsdp},
                                   {"12 layers, fsdp", fsdp_layers(ls::sharding::kKeptGatheredBytes)},
                                   {"12 layers, fsdp, of which 8 MiB are kept", fsdp_layers(8 << 20)},
                                   {"mlp, tensor", mlp_tensor},
                                   {"layers, fsdp x tensor, scan and remat", scanned_layers},
                                   {"8 microbatches, data", microbatches},
                                   {"transformer step, data x fsdp x tensor", transformer_step}});
}

}  // namespace communication
