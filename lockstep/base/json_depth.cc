// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/json_depth.h"

#include <algorithm>

namespace lockstep {

std::size_t json_depth(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace lockstep
