// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/host_groups.h"

#include <algorithm>

namespace lockstep::cli {

std::vector<HostGroup> host_groups(int first, int count, int fan_out) {
  std::vector<HostGroup> groups;
  const int number = std::min(count, fan_out);
  for (int i = 0; i < number; ++i) {
    const int size = count / number + (i < count % number ? 1 : 0);
    groups.push_back({.first = first, .count = size});
    first += size;
  }
  return groups;
}

}  // namespace lockstep::cli
