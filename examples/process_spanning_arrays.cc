// SPDX-License-Identifier: Apache-2.0
// Three ways to make an array over several processes.
//
//   $ lockstep run -n 2 -- build/release/examples/process_spanning_arrays
//   [0] device_put of what all have:            rows 0-3 of 8 are here, the sum of all is 120
//   [0] data that each process has:             rows 0-3 of 8 are here, the sum of all is 120
//   [0] parts that are on devices already:      rows 0-3 of 8 are here, the sum of all is 120
//   [1] device_put of what all have:            rows 4-7 of 8 are here, the sum of all is 120
//   [1] data that each process has:             rows 4-7 of 8 are here, the sum of all is 120
//   [1] parts that are on devices already:      rows 4-7 of 8 are here, the sum of all is 120

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace ls = lockstep;
using ls::Array, ls::P;

void report(const char* how, const Array& x) {
  auto shards = x.addressable_shards();
  std::printf("%-39s rows %d-%d of %d are here, the sum of all is %.0f\n", how,
              static_cast<int>(shards.front().index[0].start),
              static_cast<int>(shards.back().index[0].limit) - 1, static_cast<int>(x.shape()[0]),
              ls::sum(x).item<float>());
}

int main() {
  ls::initialize();
  const int devices = ls::device_count(), rows = std::max(8, devices), columns = 2;
  if (rows % devices != 0)
    throw ls::Error("8 rows are not divided by these devices: start 1, 2, 4, 8 or more");
  ls::Mesh mesh = ls::make_mesh({{"rows", devices}});
  ls::NamedSharding split(mesh, P("rows"));

  std::vector<float> all(rows * columns);
  std::iota(all.begin(), all.end(), 0.f);

  // Every process has the whole, and its devices get their parts.
  report("device_put of what all have:", ls::device_put(ls::array(all, {rows, columns}), split));

  // Every process only has its own part.
  const int each = rows / ls::process_count() * columns;
  std::vector<float> mine(all.begin() + ls::process_index() * each,
                          all.begin() + (ls::process_index() + 1) * each);
  report("data that each process has:",
         ls::make_array_from_process_local_data(split, mine, {rows / ls::process_count(), columns}));

  // Every device already has its part.
  std::vector<Array> parts;
  for (ls::Device device : ls::local_devices()) {
    const int first = device.id() * rows / devices * columns;
    std::vector<float> part(all.begin() + first, all.begin() + first + rows / devices * columns);
    parts.push_back(
        ls::device_put(ls::array(part, {rows / devices, columns}), ls::SingleDeviceSharding(device)));
  }
  report("parts that are on devices already:",
         ls::make_array_from_single_device_arrays({rows, columns}, split, parts));
}
