// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/amount.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

namespace lockstep {

std::string amount_of_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(kUnits)) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", size, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace lockstep
