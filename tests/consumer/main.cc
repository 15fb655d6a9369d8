// SPDX-License-Identifier: Apache-2.0
#include <lockstep/lockstep.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace ls = lockstep;

/// The file that XLA was loaded from.
std::string plugin() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("pjrt_c_api") != std::string::npos) return line.substr(line.find('/'));
  return "none";
}

int main() {
  ls::initialize();
  std::printf("process %d of %d\n", ls::process_index(), ls::process_count());
  std::printf("plugin %s\n", plugin().c_str());
  auto sum_everywhere = ls::pmap([](ls::Array x) { return ls::psum(x, "i"); });
  const ls::Array sums = sum_everywhere(ls::ones({ls::local_device_count()}));
  std::printf("sum %g\n", static_cast<double>(sums.to_host<float>().front()));
}
