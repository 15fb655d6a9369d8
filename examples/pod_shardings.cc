// SPDX-License-Identifier: Apache-2.0
// Three ways to split a matrix over a mesh, as pictures.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/pod_shardings
//   [0] data parallel: rows over dp, P('dp')
//   [0] ┌───────────┐
//   [0] │  CPU 0,1  │
//   [0] │ process 0 │
//   [0] ├───────────┤
//   [0] │  CPU 2,3  │
//   [0] │ process 1 │
//   [0] └───────────┘
//   [0] model parallel: columns over mp, P(None, 'mp')
//   [0] ┌─────────────┬─────────────┐
//   [0] │   CPU 0,2   │   CPU 1,3   │
//   [0] │ process 0,1 │ process 0,1 │
//   [0] └─────────────┴─────────────┘
//   [0] both: P('dp', 'mp')
//   [0] ┌───────────┬───────────┐
//   [0] │   CPU 0   │   CPU 1   │
//   [0] │ process 0 │ process 0 │
//   [0] ├───────────┼───────────┤
//   [0] │   CPU 2   │   CPU 3   │
//   [0] │ process 1 │ process 1 │
//   [0] └───────────┴───────────┘
//   [0] the sums agree: 120 120 120

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  const std::int64_t dp = ls::device_count() > 1 ? 2 : 1;
  ls::Mesh mesh = ls::make_mesh({{"dp", dp}, {"mp", -1}});
  const std::int64_t size = std::max<std::int64_t>(4, mesh.axis_size("mp"));
  Array matrix = ls::reshape(ls::arange(size * size, ls::float32), {size, size});
  const std::pair<const char*, P> ways[] = {{"data parallel: rows over dp,", P("dp")},
                                            {"model parallel: columns over mp,", P(nullptr, "mp")},
                                            {"both:", P("dp", "mp")}};
  std::string sums;
  for (const auto& [name, spec] : ways) {
    Array laid = ls::device_put(matrix, ls::NamedSharding(mesh, spec));
    sums += " " + std::to_string(static_cast<int>(ls::sum(laid).item<float>()));
    if (ls::process_index() != 0) continue;
    std::printf("%s %s\n", name, spec.to_string().c_str());
    ls::visualize_array_sharding(laid);
  }
  if (ls::process_index() == 0) std::printf("the sums agree:%s\n", sums.c_str());
}
