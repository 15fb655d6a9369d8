// SPDX-License-Identifier: Apache-2.0
// What one device does: products, a pass over memory, calls, copies, attention, and the training step of a
// transformer in bf16.

#include <lockstep/lockstep.h>

#include <functional>
#include <random>
#include <vector>

#include "benchmarks/compare_jax/measure.h"
#include "examples/transformer.h"

namespace ls = lockstep;
using ls::Array;

namespace {

int windows = 0;

/// Times `run(window)`, which makes so many calls and waits for the last.
void measure(const std::string& operation, int window, const std::function<void(int)>& run) {
  run(window);
  std::vector<double> seconds;
  for (int i = 0; i < windows; ++i) {
    const double start = compare::now();
    run(window);
    seconds.push_back((compare::now() - start) / window);
  }
  compare::report_times("gpu", seconds, ", \"operation\": \"" + operation + "\"");
}

Array normal(const ls::Shape& shape, ls::DType dtype, std::uint64_t seed) {
  return ls::jit([&](ls::random::Key key) { return ls::astype(ls::random::normal(key, shape), dtype); })(
      ls::random::key(seed));
}

void products(std::int64_t n) {
  for (const ls::DType dtype : {ls::bfloat16, ls::float32}) {
    const Array a = normal({n, n}, dtype, 1), b = normal({n, n}, dtype, 2);
    auto product = ls::jit([](Array a, Array b) { return ls::matmul(a, b); });
    Array c;
    measure("product " + std::string(ls::name(dtype)), 10, [&](int window) {
      for (int i = 0; i < window; ++i) c = product(a, b);
      c.block_until_ready();
    });
  }
}

void calls(std::int64_t mib) {
  Array y;
  const Array large = ls::ones({mib << 18}), small = ls::zeros({8});
  auto scaled = ls::jit([](Array x) { return x * 2.f + 1.f; });
  measure("x * 2 + 1", 10, [&](int window) {
    for (int i = 0; i < window; ++i) y = scaled(large);
    y.block_until_ready();
  });
  auto next = ls::jit([](Array x) { return x + 1; });
  measure("cached jit call", 1000, [&](int window) {
    for (int i = 0; i < window; ++i) y = next(small);
    y.block_until_ready();
  });
  measure("call and wait", 200, [&](int window) {
    for (int i = 0; i < window; ++i) {
      y = next(small);
      y.block_until_ready();
    }
  });
  measure("eager x + x", 200, [&](int window) {
    for (int i = 0; i < window; ++i) y = small + small;
    y.block_until_ready();
  });
}

void copies(std::int64_t mib) {
  std::vector<float> host(static_cast<std::size_t>(mib << 18), 1.f);
  Array x;
  measure("host to device", 1, [&](int) {
    x = ls::array(ls::HostView(host));
    x.block_until_ready();
  });
  auto next = ls::jit([](Array x) { return x + 1; });
  std::vector<double> seconds;
  for (int i = 0; i <= windows; ++i) {
    const Array y = next(x);
    y.block_until_ready();
    const double start = compare::now();
    const std::vector<float> back = y.to_host<float>();
    if (i > 0) seconds.push_back(compare::now() - start);
    if (back.back() != 2) std::exit(1);
  }
  compare::report_times("gpu", seconds, ", \"operation\": \"device to host\"");
}

void attention(std::int64_t context, std::int64_t tokens) {
  const ls::Shape shape = {std::max<std::int64_t>(tokens / context, 1), context, 16, 64};
  const Array q = normal(shape, ls::bfloat16, 1), k = normal(shape, ls::bfloat16, 2),
              v = normal(shape, ls::bfloat16, 3);
  const auto attended = [](const Array& q, const Array& k, const Array& v) {
    return ls::nn::dot_product_attention(q, k, v, {.is_causal = true});
  };
  auto forward = ls::jit(attended);
  Array y;
  measure("attention " + std::to_string(context), 10, [&](int window) {
    for (int i = 0; i < window; ++i) y = forward(q, k, v);
    y.block_until_ready();
  });
  auto backward = ls::jit(ls::grad([&](const std::tuple<Array, Array, Array>& x) {
    return ls::sum(ls::astype(attended(std::get<0>(x), std::get<1>(x), std::get<2>(x)), ls::float32));
  }));
  const std::tuple all(q, k, v);
  measure("gradient of attention " + std::to_string(context), 10, [&](int window) {
    for (int i = 0; i < window; ++i) y = std::get<0>(backward(all));
    y.block_until_ready();
  });
}

void train(const transformer::Config& config, std::int64_t batch) {
  const auto optimizer = transformer::optimizer({});
  auto [model, state] = ls::jit([&] {
    auto made = transformer::init(config, ls::random::key(0));
    return std::pair(made, optimizer.init(made));
  })();
  auto step = ls::jit(
      [&](transformer::Model model, decltype(state) state, Array tokens) {
        const auto loss = [&](const transformer::Model& model, const Array& tokens) {
          const auto half = ls::tree::map([](const Array& x) { return ls::astype(x, ls::bfloat16); }, model);
          const Array inputs = ls::slice(tokens, {0, 0}, {batch, config.context});
          const Array labels = ls::slice(tokens, {0, 1}, {batch, config.context + 1});
          return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(
              ls::astype(transformer::logits(config, half, inputs), ls::float32), labels));
        };
        auto [value, gradients] = ls::value_and_grad(loss)(model, tokens);
        auto [updates, next] = optimizer.update(gradients, state, model);
        return std::tuple(ls::optim::apply_updates(model, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});
  std::mt19937 generator(1);
  std::vector<std::int32_t> values(static_cast<std::size_t>(batch * (config.context + 1)));
  for (auto& value : values)
    value = static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(config.vocabulary));
  const Array tokens = ls::array(values, {batch, config.context + 1});
  const double start = compare::now();
  step.lower(model, state, tokens).compile();
  compare::report_times("gpu", {compare::now() - start}, ", \"operation\": \"compile of the step\"");
  Array loss;
  measure("step of a transformer, bf16", 5, [&](int window) {
    for (int i = 0; i < window; ++i) std::tie(model, state, loss) = step(model, state, tokens);
    loss.block_until_ready();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](const char* name) { return std::stoll(compare::option(argc, argv, name)); };
  windows = static_cast<int>(number("--windows"));
  ls::initialize();
  products(number("--matrix"));
  calls(number("--mib"));
  copies(number("--mib"));
  for (const compare::Size& context : compare::parse_sizes(compare::option(argc, argv, "--contexts")))
    attention(context.bytes, context.calls);
  transformer::Config config;
  config.layers = number("--layers");
  config.width = number("--width");
  config.heads = config.width / 64;
  config.context = number("--context");
  config.vocabulary = 32768;
  if (config.layers > 0) train(config, number("--batch"));
  ls::shutdown();
}
