// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/op_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/program/program.h"

namespace lockstep::ir {
namespace field_text {

void append(std::string& out, bool value) { out += value ? "true" : "false"; }
void append(std::string& out, std::int64_t value) { out += std::to_string(value); }
void append(std::string& out, int value) { out += std::to_string(value); }
void append(std::string& out, const Scalar& value) {
  if (value.kind == Scalar::Kind::kInteger) {
    out += std::to_string(value.integer);
  } else {
    std::string text = fmt::format("{}", value.real);
    if (text.find_first_of(".einf") == text.npos) text += ".0";
    out += text;
  }
}
void append(std::string& out, DType value) { out += name(value); }
void append(std::string& out, const std::string& value) { out += value; }
void append(std::string& out, const std::vector<std::int64_t>& value) {
  out += fmt::format("[{}]", fmt::join(value, ","));
}
void append(std::string& out, const std::vector<std::string>& value) {
  out += fmt::format("({})", fmt::join(value, ","));
}
void append(std::string& out, const std::vector<std::vector<std::string>>& value) {
  out += '(';
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i != 0) out += ',';
    append(out, value[i]);
  }
  out += ')';
}
void append(std::string& out, const std::vector<std::pair<int, int>>& value) {
  out += '[';
  for (std::size_t i = 0; i < value.size(); ++i) {
    out += fmt::format("{}{}->{}", i == 0 ? "" : ",", value[i].first, value[i].second);
  }
  out += ']';
}
void append(std::string& out, const std::vector<std::vector<int>>& value) {
  out += '[';
  for (std::size_t i = 0; i < value.size(); ++i) {
    out += fmt::format("{}[{}]", i == 0 ? "" : ",", fmt::join(value[i], ","));
  }
  out += ']';
}
void append(std::string& out, const std::shared_ptr<const Program>& value) {
  out += "{\n";
  const std::string text = to_string(*value);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start) + 1;
    out += "    " + text.substr(start, end - start);
    start = end;
  }
  out += "  }";
}
void append(std::string& out, const std::vector<std::shared_ptr<const Program>>& value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i != 0) out += ' ';
    append(out, value[i]);
  }
}

}  // namespace field_text

const std::string& OpParams::text() const {
  static const std::string none;
  return box_ ? box_->text : none;
}

}  // namespace lockstep::ir
