// SPDX-License-Identifier: Apache-2.0
// Step 3: the same product with its operands split in two ways. jit derives the communication from the
// shardings, and can show it before anything runs.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/03_jit
//   [0] x by rows: 0 collectives, the result is split by P('devices')
//   [0] x by columns: 1 collectives, the result is split by P()
//   [0] all-reduce 128 B over devices (4 devices) at 03_jit.cc:25
//   [0]   result 0 of dot_general, f32[8,4], is put together from the devices' parts over devices

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"devices", ls::device_count()}});
  auto put = [&](const Array& x, const P& spec) { return ls::device_put(x, ls::NamedSharding(mesh, spec)); };
  Array x = ls::ones({8, 16}), w = ls::ones({16, 4});

  auto product =
      ls::jit([](const Array& x, const Array& w) { return ls::matmul(x, w); }, {.name = "product"});
  auto report = [&](const char* what, const Array& x, const Array& w) {
    auto lowered = product.lower(x, w);  // traces and partitions; compiles and runs nothing
    Array result = product(x, w);
    if (ls::process_index() != 0) return;
    std::printf("x by %s: %d collectives, the result is split by %s\n", what,
                static_cast<int>(lowered.communication().size()),
                result.sharding().spec().to_string().c_str());
    std::printf("%s", lowered.explain().c_str());
  };

  // Each device has two rows of x and all of w: its rows of the result need nothing from other devices.
  report("rows", put(x, P("devices")), put(w, P()));

  // Each device has four columns of x and the four rows of w that belong to them. Its product is one term of
  // the result; the terms are summed over the devices.
  report("columns", put(x, P(nullptr, "devices")), put(w, P("devices")));
}
