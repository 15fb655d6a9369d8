// SPDX-License-Identifier: Apache-2.0
// Prints this process's number and the devices that it sees.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/hello_devices
//   [0] process 0 of 2 on myhost: local devices CpuDevice(id=0) CpuDevice(id=1); 4 devices in all
//   [1] process 1 of 2 on myhost: local devices CpuDevice(id=2) CpuDevice(id=3); 4 devices in all

#include <lockstep/lockstep.h>

#include <iostream>

namespace ls = lockstep;

int main() {
  ls::initialize();
  std::string local;
  for (ls::Device device : ls::local_devices()) local += " " + device.to_string();
  std::cout << "process " << ls::process_index() << " of " << ls::process_count() << " on "
            << ls::local_devices().front().host() << ": local devices" << local << "; " << ls::device_count()
            << " devices in all" << std::endl;
}
