// SPDX-License-Identifier: Apache-2.0
// Counts the devices of a mesh on the devices themselves: each adds 1.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/n_devices_in_mesh
//   [0] 4 devices in the mesh, says process 0
//   [1] 4 devices in the mesh, says process 1

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

/// The number of devices of the mesh, a float32 scalar on every device. The argument's values are not used:
/// only its sharding is.
Array n_devices_in_mesh(const ls::Mesh& mesh, const Array& ignored) {
  auto count = ls::shard_map([](Array) { return ls::psum(ls::pvary(ls::ones({}), "i"), "i"); },
                             {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P()}});
  return ls::jit(count)(ignored);
}

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"i", ls::device_count()}});
  Array count = n_devices_in_mesh(mesh, ls::zeros({ls::device_count()}));
  std::printf("%.0f devices in the mesh, says process %d\n", count.item<float>(), ls::process_index());
}
