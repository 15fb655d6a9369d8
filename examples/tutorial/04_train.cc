// SPDX-License-Identifier: Apache-2.0
// Step 4: a training with data parallelism. Each process has its own examples; the parameters are on every
// device; jit sums the gradients over all devices.
//
//   $ lockstep run -n 4 -- build/release/examples/tutorial/04_train
//   [0] step   0: loss 0.61
//   [0] step  50: loss 0.03
//   [0] step 100: loss 0.01

#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P;

// A struct of arrays is a tree: it can be an argument or a result of a jitted function.
struct Mlp {
  Array w1, b1, w2, b2;
};

Mlp init(const ls::random::Key& key) {
  auto [k1, k2] = ls::random::split<2>(key);
  return {ls::random::normal(k1, {1, 32}), ls::zeros({32}), 0.2 * ls::random::normal(k2, {32, 1}),
          ls::zeros({1})};
}

Array loss(const Mlp& mlp, const Array& x, const Array& y) {
  Array hidden = ls::tanh(ls::matmul(x, mlp.w1) + mlp.b1);
  return ls::mean(ls::square(ls::matmul(hidden, mlp.w2) + mlp.b2 - y));
}

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());

  // This process's 64 examples of y = sin(x): no other process has them.
  std::vector<float> xs, ys;
  for (int i = 0; i < 64; ++i) {
    xs.push_back(0.1f * static_cast<float>(i) - 3.2f + 0.02f * static_cast<float>(ls::process_index()));
    ys.push_back(std::sin(xs.back()));
  }
  Array x = ls::make_array_from_process_local_data(by_rows, xs, {64, 1});
  Array y = ls::make_array_from_process_local_data(by_rows, ys, {64, 1});

  const auto adam = ls::optim::adam(0.02);
  auto [mlp, state] = ls::jit(
      [&] {
        Mlp mlp = init(ls::random::key(0));
        return std::pair(mlp, adam.init(mlp));
      },
      {.out_shardings = {replicated, replicated}})();

  auto step = ls::jit(
      [&](Mlp mlp, decltype(state) state, const Array& x, const Array& y) {
        auto [value, grads] = ls::value_and_grad(loss)(mlp, x, y);
        auto [updates, next] = adam.update(grads, state);
        return std::tuple(ls::optim::apply_updates(mlp, updates), next, value);
      },
      {.donate_argnums = {0, 1}});  // the new parameters take the memory of the old ones

  for (int i = 0; i <= 100; ++i) {
    Array value;
    std::tie(mlp, state, value) = step(mlp, state, x, y);
    if (i % 50 == 0 && ls::process_index() == 0) std::printf("step %3d: loss %.2f\n", i, value.item<float>());
  }
}
