// SPDX-License-Identifier: Apache-2.0
// Step 9: a late process. The launcher says which process waits for which, where, and what the late one does.
//
//   $ lockstep run -n 2 --stall-warning 1 -- build/release/examples/tutorial/09_hang
//   [0] step 0: sum 2
//   [0] step 1: sum 2
//   lockstep: stalled for ... s: process 0 of 2 waits in psum f32[] over data at 09_hang.cc:27 (program
//     step(f32[1]), call 0); all for process 1 (pid ...), which has been in its own code since step at
//     09_hang.cc:27, ... s ago; it sleeps (clock_nanosleep)
//   lockstep: went on after ... s: process 1 came to psum f32[] over data at 09_hang.cc:27 (program
//     step(f32[1]), call 0)
//   [0] step 2: sum 2

#include <lockstep/lockstep.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  Array x = ls::device_put(ls::ones({ls::device_count()}), ls::NamedSharding(mesh, P("data")));
  auto step = ls::jit([](const Array& x) { return ls::sum(x); }, {.name = "step"});

  for (int i = 0; i < 3; ++i) {
    if (i == 2 && ls::process_index() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
    const float total = step(x).item<float>();
    if (ls::process_index() == 0) std::printf("step %d: sum %g\n", i, total);
  }
}
