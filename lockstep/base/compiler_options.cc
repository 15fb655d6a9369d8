// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/compiler_options.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

struct Text {
  std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:.17g}", value); }
};

}  // namespace

std::string to_string(const CompilerOptions& options) {
  std::string text;
  for (const auto& [name, value] : options)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, std::visit(Text(), value));
  return text.empty() ? text : fmt::format("{{{}}}", text);
}

}  // namespace lockstep
