// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/value.h"

#include <fmt/format.h>

#include "lockstep/base/text.h"

namespace lockstep::checkpoint {

std::string kind_of(const Value& value) {
  constexpr const char* kKinds[] = {"a bool", "a whole number", "a whole number", "a floating number",
                                    "text"};
  return kKinds[value.index()];
}

std::string to_string(const Value& value) {
  return std::visit(
      [](const auto& each) {
        if constexpr (std::is_same_v<std::decay_t<decltype(each)>, std::string>)
          return fmt::format("\"{}\"", shown(each, std::string::npos));
        else
          return fmt::format("{}", each);
      },
      value);
}

}  // namespace lockstep::checkpoint
