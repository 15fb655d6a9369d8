// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/node_list.h"

#include <string_view>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

constexpr std::size_t kMostNames = 1'000'000;
constexpr std::size_t kLongestName = 255;  // as DNS has it

class NodeList {
 public:
  explicit NodeList(const std::string& text) : text_(text) {}

  std::vector<std::string> expand() const {
    std::vector<std::string> names;
    std::size_t start = 0, depth = 0;
    for (std::size_t i = 0; i <= text_.size(); ++i) {
      if (i < text_.size() && text_[i] == '[') ++depth;
      if (i < text_.size() && text_[i] == ']' && depth-- == 0) refuse();
      if (i < text_.size() && (text_[i] != ',' || depth > 0)) continue;
      std::vector<std::string> more = entry(std::string_view(text_).substr(start, i - start));
      names.insert(names.end(), more.begin(), more.end());
      if (names.size() > kMostNames) refuse();
      start = i + 1;
    }
    if (depth != 0) refuse();
    return names;
  }

 private:
  [[noreturn]] void refuse() const {
    fail<InitializationError>("'{}' is not a node list of Slurm, such as 'node[001-003,7],login'",
                              shown(text_));
  }

  /// One name with any number of brackets in it; the first bracket moves slowest.
  std::vector<std::string> entry(std::string_view text) const {
    if (text.empty()) refuse();
    std::vector<std::string> names = {""};
    while (!text.empty()) {
      const auto open = std::min(text.find('['), text.size());
      if (text.substr(0, open).find(']') != std::string_view::npos) refuse();
      for (std::string& name : names) append(name, text.substr(0, open));
      text.remove_prefix(open);
      if (text.empty()) break;
      const auto close = text.find(']');
      if (close == std::string_view::npos) refuse();
      const std::vector<std::string> numbers = ranges(text.substr(1, close - 1));
      text.remove_prefix(close + 1);
      if (names.size() * numbers.size() > kMostNames) refuse();
      std::vector<std::string> longer;
      for (const std::string& name : names)
        for (const std::string& number : numbers) append(longer.emplace_back(name), number);
      names = std::move(longer);
    }
    return names;
  }

  void append(std::string& name, std::string_view more) const {
    if (name.size() + more.size() > kLongestName) refuse();
    name += more;
  }

  /// "1-3,007" as texts.
  std::vector<std::string> ranges(std::string_view text) const {
    std::vector<std::string> numbers;
    while (true) {
      const auto comma = std::min(text.find(','), text.size());
      const std::string_view range = text.substr(0, comma);
      const auto dash = std::min(range.find('-'), range.size());
      const std::string_view low = range.substr(0, dash);
      const std::string_view high = dash == range.size() ? low : range.substr(dash + 1);
      const std::size_t first = number(low), last = number(high);
      if (last < first || last - first > kMostNames - std::min(numbers.size(), kMostNames)) refuse();
      for (std::size_t value = first; value <= last; ++value)
        numbers.push_back(fmt::format("{:0{}}", value, low.size()));
      if (comma == text.size()) return numbers;
      text.remove_prefix(comma + 1);
    }
  }

  std::size_t number(std::string_view text) const {
    const auto value = whole_number(text);
    if (!value || text.size() > 18) refuse();
    return *value;
  }

  const std::string& text_;
};

}  // namespace

std::vector<std::string> expand_node_list(const std::string& text) { return NodeList(text).expand(); }

}  // namespace lockstep::cluster
