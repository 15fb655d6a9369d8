// SPDX-License-Identifier: Apache-2.0
// Step 5: shard_map. The function is written for one device, which has its part of the arguments and calls
// collectives by the names of the mesh's axes.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/05_shard_map
//   [0] x              0 1 2 3 4 5 6 7
//   [0] total          28
//   [0] from_left      6 7 0 1 2 3 4 5
//   [0] below_largest  7 6 5 4 3 2 1 0

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  const int devices = ls::device_count();
  ls::Mesh mesh = ls::make_mesh({{"i", devices}});
  Array x = ls::device_put(ls::arange(2 * devices, ls::float32), ls::NamedSharding(mesh, P("i")));

  // From each device to the next, and from the last to the first.
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < devices; ++i) ring.push_back({i, (i + 1) % devices});

  auto f = ls::shard_map(
      [&](const Array& part) {                       // f32[2], this device's
        Array total = ls::psum(ls::sum(part), "i");  // the same on all devices
        Array from_left = ls::ppermute(part, "i", ring);
        Array all = ls::all_gather(part, "i", {.tiled = true});  // f32[8]
        return std::tuple(total, from_left, ls::max(all, {.keepdims = true}) - part);
      },
      {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P(), P("i"), P("i")}});

  auto [total, from_left, below_largest] = ls::jit(f)(x);
  auto print = [&](const char* what, const Array& y) {
    // Every process must make this call: it brings the parts of all processes to each of them.
    const auto values = ls::multihost::process_allgather(y).to_host<float>();
    if (ls::process_index() != 0) return;
    std::printf("%-14s", what);
    for (float value : values) std::printf(" %g", value);
    std::printf("\n");
  };
  print("x", x);
  print("total", total);
  print("from_left", from_left);
  print("below_largest", below_largest);
}
