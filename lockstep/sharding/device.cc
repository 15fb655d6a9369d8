// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/device.h"

#include <fmt/format.h>

#include <cctype>

namespace lockstep {

std::string Device::to_string() const {
  std::string platform = info_->platform;
  if (!platform.empty())
    platform[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(platform[0])));
  return fmt::format("{}Device(id={})", platform, id());
}

}  // namespace lockstep
