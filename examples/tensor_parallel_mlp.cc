// SPDX-License-Identifier: Apache-2.0
// A two-layer perceptron that jit alone splits over `model` and `data`: the program has no collectives.
// Prints the communication and its reasons: the gradients need one all-reduce.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tensor_parallel_mlp
//   [0] all-reduce 256 B over model (2 devices) at tensor_parallel_mlp.cc:33
//   [0]   result 0 of dot_general, f32[32,4], is put together from the devices' parts over model
//   [0] all-reduce 2.5 KiB over data (2 devices) at tensor_parallel_mlp.cc:32
//   [0]   3 in one:
//   [0]     f32[16,32] at tensor_parallel_mlp.cc:32
//   [0]       result 0 of dot_general, f32[16,64], is put together from the devices' parts over data
//   [0]     f32[32,4] at tensor_parallel_mlp.cc:33
//   [0]       result 0 of dot_general, f32[64,4], is put together from the devices' parts over data
//   [0]     f32[] at tensor_parallel_mlp.cc:33
//   [0]       result 0 of reduce_sum, f32[], is put together from the devices' parts over data
//   [0] loss 1.425 -> 0.189

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

struct Mlp {
  Array in, out;  // [features, hidden] and [hidden, classes]
};

Array loss(const Mlp& mlp, const Array& x, const Array& y) {
  Array hidden = ls::tanh(ls::matmul(x, mlp.in));
  return ls::mean(ls::square(ls::matmul(hidden, mlp.out) - y));
}

int main() {
  ls::initialize();
  const std::int64_t data = ls::device_count() > 1 ? 2 : 1;
  ls::Mesh mesh = ls::make_mesh({{"data", data}, {"model", -1}});
  auto put = [&](const Array& x, const P& spec) { return ls::device_put(x, ls::NamedSharding(mesh, spec)); };
  const std::int64_t hidden = std::max(64, ls::device_count());

  auto [k1, k2, k3, k4] = ls::random::split<4>(ls::random::key(0));
  // The columns of the first matrix and the rows of the second are split over `model`: each device has some
  // of the hidden units, and needs the others only for the sum in the second product.
  Mlp mlp{put(ls::random::normal(k1, {16, hidden}) / 4.0, P(nullptr, "model")),
          put(ls::random::normal(k2, {hidden, 4}) / 8.0, P("model"))};
  Array x = put(ls::random::normal(k3, {32, 16}), P("data"));
  Array y = put(ls::random::normal(k4, {32, 4}), P("data"));

  auto step = ls::jit(
      [](const Mlp& mlp, const Array& x, const Array& y) {
        auto [value, g] = ls::value_and_grad(loss)(mlp, x, y);
        return std::tuple(Mlp{mlp.in - 0.1 * g.in, mlp.out - 0.1 * g.out}, value);
      },
      {.name = "step"});

  if (ls::process_index() == 0) std::printf("%s", step.lower(mlp, x, y).explain().c_str());
  Array value, first;
  for (int i = 0; i < 100; ++i) {
    std::tie(mlp, value) = step(mlp, x, y);
    if (i == 0) first = value;
  }
  if (ls::process_index() == 0) std::printf("loss %.3f -> %.3f\n", first.item<float>(), value.item<float>());
}
