// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/node_list.h"

#include <charconv>
#include <string_view>

#include "lockstep/base/fail.h"

namespace lockstep::cluster {
namespace {

constexpr std::size_t kMostNames = 1'000'000;

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
    fail<InitializationError>("'{}' is not a node list of Slurm, such as 'node[001-003,7],login'", text_);
  }

  /// One name with any number of brackets in it; the first bracket moves slowest.
  std::vector<std::string> entry(std::string_view text) const {
    if (text.empty()) refuse();
    const auto open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos) {
      if (close != std::string_view::npos) refuse();
      return {std::string(text)};
    }
    if (close == std::string_view::npos || close < open) refuse();
    const std::string prefix(text.substr(0, open));
    std::vector<std::string> tails = {""};
    if (close + 1 < text.size()) tails = entry(text.substr(close + 1));
    std::vector<std::string> names;
    for (const std::string& middle : ranges(text.substr(open + 1, close - open - 1))) {
      for (const std::string& tail : tails) names.push_back(prefix + middle + tail);
      if (names.size() > kMostNames) refuse();
    }
    return names;
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
      if (last < first || last - first > kMostNames) refuse();
      for (std::size_t value = first; value <= last; ++value)
        numbers.push_back(fmt::format("{:0{}}", value, low.size()));
      if (comma == text.size()) return numbers;
      text.remove_prefix(comma + 1);
    }
  }

  std::size_t number(std::string_view text) const {
    std::size_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || text.size() > 18 || error != std::errc() || end != text.data() + text.size())
      refuse();
    return value;
  }

  const std::string& text_;
};

}  // namespace

std::vector<std::string> expand_node_list(const std::string& text) { return NodeList(text).expand(); }

}  // namespace lockstep::cluster
