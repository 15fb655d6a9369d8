// SPDX-License-Identifier: Apache-2.0
// Step 2: one array over the devices of two processes, a block of it on each device.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/02_arrays
//   [0] ┌───────────┬───────────┐
//   [0] │   CPU 0   │   CPU 1   │
//   [0] │ process 0 │ process 0 │
//   [0] ├───────────┼───────────┤
//   [0] │   CPU 2   │   CPU 3   │
//   [0] │ process 1 │ process 1 │
//   [0] └───────────┴───────────┘
//   [0] device 0 holds rows 0-1, columns 0-3
//   [0] device 1 holds rows 0-1, columns 4-7
//   [1] device 2 holds rows 2-3, columns 0-3
//   [1] device 3 holds rows 2-3, columns 4-7
//   [0] the sum of all elements is 496
//   [1] the sum of all elements is 496

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"rows", 2}, {"columns", 2}});
  ls::NamedSharding blocks(mesh, P("rows", "columns"));

  // Every process has the whole value here; device_put keeps the blocks of this process's devices.
  Array x = ls::device_put(ls::reshape(ls::arange(32, ls::float32), {4, 8}), blocks);

  if (ls::process_index() == 0) ls::visualize_array_sharding(x);
  for (const ls::Shard& shard : x.addressable_shards())
    std::printf("device %d holds rows %d-%d, columns %d-%d\n", shard.device.id(),
                static_cast<int>(shard.index[0].start), static_cast<int>(shard.index[0].limit) - 1,
                static_cast<int>(shard.index[1].start), static_cast<int>(shard.index[1].limit) - 1);

  // A computation over the array: every process calls it, and every process gets the result.
  std::printf("the sum of all elements is %.0f\n", ls::sum(x).item<float>());
}
