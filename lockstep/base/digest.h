// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// 32 hexadecimal digits that are the same in every process, on every machine and in every run (XXH3, 128
/// bits): collisions by chance are practically excluded. Not secure against deliberate collisions.
std::string digest(std::string_view bytes);

}  // namespace lockstep
