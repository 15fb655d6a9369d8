// SPDX-License-Identifier: Apache-2.0
// Gradients of what is the same on all devices under shard_map: how many bytes are added up over them.

#include <functional>
#include <map>
#include <string>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/collectives.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::line_mesh;
using test::waves;

/// A layer of parameters p on a batch x; p[0] is what has the gradient.
using Network = std::function<Array(Array, Array)>;
using Loss = std::function<Array(Array, Array)>;

struct Sums {
  std::int64_t collectives = 0, bytes = 0;  ///< each as often as it runs
};

/// The gradient in p, p whole and x split over four devices, is that on one device. What its sums cost.
Sums sums_of_gradient(const Network& layer, const Array& p, const Array& x) {
  const Loss plain = [&](Array p, Array x) { return mean(layer(p, x)); };
  const Loss parallel = shard_map([&](Array p, Array x) { return pmean(mean(layer(p, x)), "x"); },
                                  {line_mesh(), {P(), P("x")}, {P()}});
  auto gradient = jit(grad(parallel));
  expect_equal(gradient(p, x), grad(plain)(p, x));
  Sums sums;
  for (const auto& line : gradient.lower(p, x).communication()) {
    if (line.bytes <= 4) continue;  // the loss
    sums.collectives += line.times.value_or(1);
    sums.bytes += line.total_bytes();
  }
  return sums;
}

TEST(ReplicatedGradients, AreSummedOverTheBatchBeforeTheDevices) {
  const Array x = waves({256, 4}), bias = waves({4}, 3);
  const std::map<std::string, Network> layers = {
      {"bias", [](Array b, Array x) { return tanh(x + b); }},
      {"scale", [](Array s, Array x) { return sin(x * s); }},
      {"scale and bias of one array", [](Array s, Array x) { return tanh(x * s + s); }},
      {"reshaped",
       [](Array b, Array x) {
         return tanh(x + reshape(b, {1, 4}));
       }},
      {"broadcast", [](Array b, Array x) { return tanh(x * broadcast_to(b, x.shape())); }},
      {"function of the bias", [](Array b, Array x) { return tanh(x - exp(b)); }},
      {"remat", remat(Network([](Array b, Array x) { return tanh(x + b); }))},
      {"vmap",
       [](Array b, Array x) {
         return vmap(Network([](Array b, Array v) { return tanh(v * b + b); }),
                     {.in_axes = {std::nullopt, 0}})(b, x);
       }},
      {"loop, a constant of it",
       [](Array b, Array x) {
         auto step = [&](Array h, std::tuple<>) { return std::pair(tanh(h * b + b), std::tuple<>()); };
         return scan(step, x, std::tuple<>(), {.length = 5}).first;
       }},
      {"loop in a loop", [](Array b, Array x) {
         auto inner = [&](Array h, std::tuple<>) { return std::pair(tanh(h + b), std::tuple<>()); };
         auto outer = [&](Array h, std::tuple<>) {
           return std::pair(scan(inner, h, std::tuple<>(), {.length = 3}).first, std::tuple<>());
         };
         return scan(outer, x, std::tuple<>(), {.length = 2}).first;
       }}};
  for (const auto& [name, layer] : layers) {
    SCOPED_TRACE(name);
    const Sums sums = sums_of_gradient(layer, bias, x);
    EXPECT_EQ(sums.bytes, 16);
    EXPECT_EQ(sums.collectives, 1);
  }
}

TEST(ReplicatedGradients, ForALoopsElements_AreSummedOverDevicesAfterTheLoop) {
  const Network layers = [](Array ws, Array x) {
    auto step = [](Array h, Array w) { return std::pair(tanh(h * w), std::tuple<>()); };
    return scan(step, x, ws).first;
  };
  const Sums sums = sums_of_gradient(layers, waves({5, 4}), waves({256, 4}));
  EXPECT_EQ(sums.bytes, 5 * 16);
  EXPECT_EQ(sums.collectives, 1);
}

TEST(ReplicatedGradients, OfAScalarOrASlice_MoveOnlyItsBytes) {
  const Array x = waves({256, 4});
  const Loss parallel = shard_map([](Array s, Array x) { return pmean(mean(tanh(x * s + s)), "x"); },
                                  {line_mesh(), {P(), P("x")}, {P()}});
  for (const auto& line : jit(grad(parallel)).lower(ones({}), x).communication()) EXPECT_EQ(line.bytes, 4);
  // The gradient of elements that are chosen out of many is added up where it is small.
  const Network chosen = [](Array table, Array x) { return tanh(x * slice(table, {8}, {12})); };
  EXPECT_EQ(sums_of_gradient(chosen, waves({4096}), x).bytes, 16);
}

}  // namespace
}  // namespace lockstep
