// SPDX-License-Identifier: Apache-2.0
// Step 1: one program, several processes. Each process has devices of its own and sees the devices of all.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/tutorial/01_hello
//   [0] process 0 of 2 has 2 of 4 devices
//   [1] process 1 of 2 has 2 of 4 devices

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;

int main() {
  ls::initialize();  // waits until all processes of the job have called it
  std::printf("process %d of %d has %d of %d devices\n", ls::process_index(), ls::process_count(),
              ls::local_device_count(), ls::device_count());
}
