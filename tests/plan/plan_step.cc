// SPDX-License-Identifier: Apache-2.0
// Lowers a step of training for the described devices of LOCKSTEP_TOPOLOGY, and writes what the compiler is
// given: `plan_step TEXT IDS` puts the StableHLO into the file TEXT, and the plugin's numbers of the devices
// into IDS.

#include <fstream>
#include <tuple>

#include "lockstep/lockstep.h"
#include "lockstep/runtime/runtime.h"

namespace ls = lockstep;
using ls::Array, ls::P;

struct Layer {
  Array in, out;
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"data", 4}, {"tensor", -1}});
  const auto put = [&](const ls::Shape& shape, const ls::PartitionSpec& spec) {
    return ls::device_put(ls::zeros(shape, ls::bfloat16), ls::NamedSharding(mesh, spec));
  };
  const auto loss = [](const Layer& layer, const Array& x) {
    return ls::mean(ls::square(ls::matmul(ls::maximum(ls::matmul(x, layer.in), 0), layer.out)));
  };
  auto step = ls::jit(
      [&](Layer layer, Array x) {
        auto [value, grads] = ls::value_and_grad(loss)(layer, x);
        return std::tuple(Layer{layer.in - 0.125 * grads.in, layer.out - 0.125 * grads.out}, value);
      },
      {.donate_argnums = {0}});
  const Layer layer{put({512, 4096}, P(nullptr, "tensor")), put({4096, 512}, P("tensor"))};
  std::ofstream(argv[1]) << step.lower(layer, put({1024, 512}, P("data"))).stablehlo;
  std::ofstream ids(argv[2]);
  for (const ls::Device device : mesh.devices()) ids << ls::runtime::Runtime::get().plugin_id(device) << "\n";
}
