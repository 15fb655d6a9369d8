#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// 32 hexadecimal digits that are the same in every process, on every machine and in every run (XXH3, 128
/// bits): for what no collision may happen by chance. Not against somebody who looks for one.
std::string digest(std::string_view bytes);

}  // namespace lockstep
