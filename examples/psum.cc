// SPDX-License-Identifier: Apache-2.0
// Sums a 1 from every device of every process, so that each learns the number of devices.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/psum
//   [0] process 0: psum gives 4 4
//   [1] process 1: psum gives 4 4

#include <lockstep/lockstep.h>

#include <iostream>

namespace ls = lockstep;

int main() {
  ls::initialize();
  ls::Array xs = ls::ones({ls::local_device_count()});
  auto sum_everywhere = ls::pmap([](ls::Array x) { return ls::psum(x, "i"); }, {.axis_name = "i"});
  std::cout << "process " << ls::process_index() << ": psum gives";
  for (float total : sum_everywhere(xs).to_host<float>()) std::cout << " " << total;
  std::cout << std::endl;
}
