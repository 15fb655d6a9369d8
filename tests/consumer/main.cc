// SPDX-License-Identifier: Apache-2.0
#include <lockstep/lockstep.h>
#include <lockstep/pjrt/plugin.h>

#include <cstdio>

namespace ls = lockstep;

int main() {
  ls::initialize();
  std::printf("process %d of %d\n", ls::process_index(), ls::process_count());
  std::printf("plugin %s\n", ls::pjrt::find_plugin().c_str());
  auto sum_everywhere = ls::pmap([](ls::Array x) { return ls::psum(x, "i"); });
  const ls::Array sums = sum_everywhere(ls::ones({ls::local_device_count()}));
  std::printf("sum %g\n", static_cast<double>(sums.to_host<float>().front()));
}
