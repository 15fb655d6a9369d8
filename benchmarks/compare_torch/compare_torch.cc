// SPDX-License-Identifier: Apache-2.0
// Lockstep's side of the comparison with PyTorch: training steps of a Llama and of a ResNet, single
// operations, and greedy generation. compare.py runs it; README.md says what is measured.

#include <lockstep/lockstep.h>

#include <cstdio>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/compare_jax/measure.h"
#include "examples/llm.h"
#include "examples/resnet.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P, ls::Shape;

namespace {

/// The times of steps behind the first two, each until its loss is there.
void measure_steps(const std::string& name, int steps, const std::function<float()>& step) {
  double begin = compare::now();
  step();
  const double first = compare::now() - begin;
  step();
  std::vector<double> times;
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    begin = compare::now();
    loss = step();
    times.push_back(compare::now() - begin);
  }
  if (ls::process_index() == 0)
    compare::report_times(name.c_str(), times,
                          ", \"first_s\": " + std::to_string(first) + ", \"loss\": " + std::to_string(loss));
  compare::report_memory(ls::process_index());
}

/// 5 million parameters in 4 layers.
const llm::Config kLlama{.model_type = "llama",
                         .hidden_act = "silu",
                         .hidden_size = 256,
                         .intermediate_size = 688,
                         .num_hidden_layers = 4,
                         .num_attention_heads = 8,
                         .vocab_size = 4096,
                         .num_key_value_heads = 4,
                         .rms_norm_eps = 1e-6};

llm::Model make_llama(const ls::Sharding& sharding) {
  return ls::jit([] { return nn::init(llm::layers(kLlama), ls::random::key(0)); },
                 {.out_shardings = {sharding}})();
}

ls::optim::Adam adamw() { return ls::optim::adamw({.learning_rate = 1e-3, .weight_decay = 0.01}); }

void train_llama(int steps) {
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding rows(mesh, P("data")), replicated(mesh, P());
  llm::Model model = make_llama(replicated);
  const auto optimizer = adamw();
  auto state =
      ls::jit([&](const llm::Model& m) { return optimizer.init(m); }, {.out_shardings = {replicated}})(model);
  const Array ids = ls::device_put(ls::random::randint(ls::random::key(1), {8, 128}, 0, 4096), rows);
  auto loss = [](const llm::Model& m, const Array& ids) {
    const Array logits = llm::logits(m, llm::features(m, ids, kLlama, {}));
    return ls::mean(nn::softmax_cross_entropy_with_integer_labels(
        logits[{ls::slice(), ls::slice(0, -1)}], ids[{ls::slice(), ls::slice(1, ls::none)}]));
  };
  auto step = ls::jit(
      [&](llm::Model m, decltype(state) state, const Array& ids) {
        auto [value, grads] = ls::value_and_grad(loss)(m, ids);
        auto [updates, next] = optimizer.update(grads, state, m);
        return std::tuple(ls::optim::apply_updates(m, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});
  measure_steps("llama", steps, [&] {
    Array value;
    std::tie(model, state, value) = step(model, state, ids);
    return value.item<float>();
  });
}

void train_resnet(int steps) {
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding rows(mesh, P("data")), replicated(mesh, P());
  auto model =
      ls::jit([] { return nn::init(resnet::layers({.width = 16, .large = true}), ls::random::key(0)); },
              {.out_shardings = {replicated}})();
  const auto optimizer = adamw();
  auto state = ls::jit([&](const resnet::ResNet& net) { return optimizer.init(net); },
                       {.out_shardings = {replicated}})(model.net);
  const Array pictures = ls::device_put(ls::random::normal(ls::random::key(1), {32, 64, 64, 3}), rows);
  const Array labels = ls::device_put(ls::random::randint(ls::random::key(2), {32}, 0, 10), rows);
  auto loss = [](const resnet::ResNet& net, resnet::Stats stats, const Array& x, const Array& y) {
    const Array logits = net(x, stats, /*training=*/true);
    return std::pair(ls::mean(nn::softmax_cross_entropy_with_integer_labels(logits, y)), stats);
  };
  auto step = ls::jit(
      [&](resnet::Model m, decltype(state) state, const Array& x, const Array& y) {
        auto [value, grads] = ls::value_and_grad(loss)(m.net, m.stats, x, y);
        auto [updates, next] = optimizer.update(grads, state, m.net);
        return std::tuple(resnet::Model{ls::optim::apply_updates(m.net, updates), value.second}, next,
                          value.first);
      },
      {.donate_argnums = {0, 1}, .name = "step"});
  measure_steps("resnet", steps, [&] {
    Array value;
    std::tie(model, state, value) = step(model, state, pictures, labels);
    return value.item<float>();
  });
}

/// A call of a jitted function, and the wait for its result.
template <class Function, class... Arrays>
void measure(const std::string& name, int calls, Function f, const Arrays&... arrays) {
  auto compiled = ls::jit(f);
  std::vector<double> times;
  for (int i = 0; i < calls + 2; ++i) {
    const double begin = compare::now();
    ls::block_until_ready(compiled(arrays...));
    if (i >= 2) times.push_back(compare::now() - begin);
  }
  compare::report_times(name.c_str(), times);
}

Array normal(unsigned seed, const Shape& shape) { return ls::random::normal(ls::random::key(seed), shape); }

void products(int calls) {
  const Array x = normal(0, {1024, 256}), head = normal(1, {4096, 256}), up = normal(2, {688, 256}),
              g = normal(3, {1024, 4096});
  auto by_columns = [](const Array& x, const Array& w) { return ls::einsum("bi,oi->bo", {x, w}); };
  measure("x w^T, [1024,256] [4096,256]", calls, by_columns, x, head);
  measure("x w^T, [1024,256] [688,256]", calls, by_columns, x, up);
  measure(
      "g w, [1024,4096] [4096,256]", calls, [](const Array& g, const Array& w) { return ls::matmul(g, w); },
      g, head);
  measure(
      "g^T x, [1024,4096] [1024,256]", calls,
      [](const Array& g, const Array& x) {
        return ls::einsum("bo,bi->oi", {g, x});
      },
      g, x);
  const Array rows = normal(10, {2048, 512}), experts = normal(11, {8, 512, 512}),
              sizes = ls::array({300, 212, 0, 256, 500, 1, 523, 256});
  measure(
      "8 groups of rows, [2048,512] [8,512,512]", calls,
      [](const Array& x, const Array& w, const Array& n) { return ls::ragged_dot(x, w, n); }, rows, experts,
      sizes);
  measure(
      "8 groups of rows, and both derivatives", calls,
      [](const Array& rows, const Array& experts, const Array& sizes) {
        return ls::grad<0, 1>([&](const Array& rows, const Array& experts) {
          return ls::sum(ls::square(ls::ragged_dot(rows, experts, sizes)));
        })(rows, experts);
      },
      rows, experts, sizes);
}

void parts_of_models(int calls) {
  const Array g = normal(3, {1024, 4096}), labels = ls::random::randint(ls::random::key(4), {1024}, 0, 4096);
  auto entropy = [](const Array& g, const Array& y) {
    return ls::mean(nn::softmax_cross_entropy_with_integer_labels(g, y));
  };
  measure("cross entropy of [1024,4096]", calls, entropy, g, labels);
  measure(
      "gradient of the cross entropy", calls,
      [=](const Array& g, const Array& y) {
        return ls::grad([&](const Array& g) { return entropy(g, y); })(g);
      },
      g, labels);
  const Array q = normal(5, {8, 128, 8, 32}), k = normal(6, {8, 128, 4, 32});
  auto attention = [](const Array& q, const Array& k) {
    return nn::dot_product_attention(q, k, k, {.is_causal = true});
  };
  measure("causal attention [8,128,8,32], 4 key heads", calls, attention, q, k);
  measure("causal attention [1,1024,8,64]", calls, attention, normal(22, {1, 1024, 8, 64}),
          normal(23, {1, 1024, 8, 64}));
  measure(
      "causal attention, by the queries", calls,
      [=](const Array& q, const Array& k) {
        return ls::grad([&](const Array& q) { return ls::sum(ls::square(attention(q, k))); })(q);
      },
      q, k);
  measure(
      "sin(x) + cos(x), [1048576]", calls, [](const Array& x) { return ls::sin(x) + ls::cos(x); },
      normal(24, {1 << 20}));
  measure(
      "silu(h) h, [1024,688]", calls, [](const Array& h) { return nn::silu(h) * h; }, normal(7, {1024, 688}));
  measure(
      "rms_norm [1024,256]", calls, [](const Array& x) { return nn::rms_norm(x, 1.0); },
      normal(0, {1024, 256}));
  const auto tables = nn::rotary_tables(128, 32);
  measure(
      "rotary embedding [8,128,8,32]", calls,
      [](const Array& q, const nn::RotaryTables& t) { return nn::rotary_embedding(q, t); }, q, tables);
  measure(
      "batch norm [32,16,16,16], training", calls,
      [](const Array& x) {
        const auto layer = nn::init(nn::BatchNorm{.features = 16}, ls::random::key(0));
        auto stats = nn::init(nn::BatchStats{16}, ls::random::key(0));
        return layer(x, stats, true);
      },
      normal(8, {32, 16, 16, 16}));
  const auto adam = adamw();
  Array p = normal(8, {3'000'000});
  const Array gradient = normal(9, {3'000'000});
  auto state = adam.init(p);
  auto update = ls::jit(
      [&](const Array& p, decltype(state) state, const Array& g) {
        auto [updates, next] = adam.update(g, state, p);
        return std::pair(ls::optim::apply_updates(p, updates), next);
      },
      {.donate_argnums = {0, 1}});
  std::vector<double> times;
  for (int i = 0; i < calls + 2; ++i) {
    const double begin = compare::now();
    std::tie(p, state) = update(p, state, gradient);
    p.block_until_ready();
    if (i >= 2) times.push_back(compare::now() - begin);
  }
  compare::report_times("adamw of 3 million", times);
}

void convolutions(int calls) {
  struct Kind {
    std::int64_t batch, size, in, out, window, stride = 1, groups = 1;
  };
  for (const Kind& c :
       {Kind{32, 64, 3, 16, 7, 2}, Kind{32, 16, 16, 16, 3}, Kind{32, 8, 32, 32, 3}, Kind{32, 4, 64, 64, 3},
        Kind{32, 2, 128, 128, 3}, Kind{32, 16, 64, 64, 3}, Kind{8, 56, 64, 64, 3}, Kind{8, 56, 64, 256, 1},
        Kind{8, 28, 64, 128, 3, 2}, Kind{8, 56, 64, 64, 3, 1, 64}, Kind{8, 56, 64, 64, 3, 2, 64},
        Kind{8, 14, 256, 256, 7, 1, 256}, Kind{8, 28, 128, 128, 3, 1, 32}}) {
    const std::int64_t around = c.window / 2;
    const Array x = normal(0, {c.batch, c.size, c.size, c.in}),
                w = normal(1, {c.window, c.window, c.in / c.groups, c.out});
    auto conv = [=](const Array& x, const Array& w) {
      return nn::conv(x, w,
                      {.window_strides = {c.stride, c.stride},
                       .padding = {{around, around}, {around, around}},
                       .feature_group_count = c.groups});
    };
    const Array y = ls::jit(conv)(x, w);
    const std::string name = "convolution [" + std::to_string(c.batch) + "," + std::to_string(c.size) + "," +
                             std::to_string(c.size) + "," + std::to_string(c.in) + "] to " +
                             std::to_string(c.out) + ", " + std::to_string(c.window) + " x " +
                             std::to_string(c.window) +
                             (c.stride > 1 ? ", stride " + std::to_string(c.stride) : "") +
                             (c.groups > 1 ? ", " + std::to_string(c.groups) + " groups" : "");
    measure(name, calls, conv, x, w);
    measure(
        name + ", by the pictures", calls,
        [=](const Array& x, const Array& w, const Array& y) {
          return ls::grad([&](const Array& x) { return ls::sum(conv(x, w) * y); })(x);
        },
        x, w, y);
    measure(
        name + ", by the kernels", calls,
        [=](const Array& x, const Array& w, const Array& y) {
          return ls::grad([&](const Array& w) { return ls::sum(conv(x, w) * y); })(w);
        },
        x, w, y);
  }
  auto pool = [](const Array& x) {
    return nn::max_pool(x, {3, 3}, {.strides = {2, 2}, .padding = {{1, 1}, {1, 1}}});
  };
  const Array x = normal(0, {32, 32, 32, 16});
  measure("max_pool [32,32,32,16], 3 x 3, stride 2", calls, pool, x);
  measure(
      "max_pool, by the pictures", calls,
      [=](const Array& x) { return ls::grad([&](const Array& x) { return ls::sum(pool(x)); })(x); }, x);
}

/// Greedy generation of 100 tokens for two rows with a prompt of 16.
void generate(int calls) {
  constexpr std::int64_t kBatch = 2, kPrompt = 16, kNew = 100;
  const llm::Model model = make_llama(ls::SingleDeviceSharding(ls::local_devices()[0]));
  auto make_caches = [&] {
    llm::Caches caches;
    for (std::int64_t i = 0; i < kLlama.num_hidden_layers; ++i)
      caches.push_back(nn::KvCache::make(kBatch, kPrompt + kNew, kLlama.key_heads(), kLlama.head_size(), {}));
    return caches;
  };
  const Array prompt = ls::random::randint(ls::random::key(1), {kBatch, kPrompt}, 0, 4096),
              lengths = ls::full({kBatch}, static_cast<std::int32_t>(kPrompt));
  auto step = [](const llm::Model& model, const Array& tokens, const Array& lengths,
                 const llm::Caches& before) {
    auto [x, caches] = llm::features(model, tokens, lengths, before, {});
    return std::pair(llm::logits(model, nn::last_rows(x, lengths)), caches);
  };
  std::vector<double> times;
  for (int i = 0; i < calls + 1; ++i) {
    const double begin = compare::now();
    nn::generate(step, model, make_caches(), prompt, lengths, {.max_new_tokens = kNew}, ls::random::key(0))
        .tokens.block_until_ready();
    if (i > 0) times.push_back((compare::now() - begin) / kNew);
  }
  compare::report_times("a token of greedy generation", times);
}

void sorts(int calls) {
  const Array x = normal(20, {1 << 18}), rows = normal(21, {64, 32000});
  auto sorted = [](const Array& x) { return ls::sort(x); };
  measure("sort [262144]", calls, sorted, x);
  measure("sort [64,32000]", calls, sorted, rows);
  measure(
      "argsort [262144]", calls, [](const Array& x) { return ls::argsort(x); }, x);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = compare::option(argc, argv, "--what");
  const int count = std::stoi(compare::option(argc, argv, "--count"));
  ls::initialize();
  if (what == "llama") train_llama(count);
  if (what == "resnet") train_resnet(count);
  if (what == "operations") products(count), parts_of_models(count), sorts(count), convolutions(count);
  if (what == "generate") generate(count);
}
