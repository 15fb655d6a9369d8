// SPDX-License-Identifier: Apache-2.0
#include "cli/base/line_splitter.h"

#include <utility>

namespace lockstep::cli {

std::vector<std::string> LineSplitter::feed(std::string_view bytes) {
  std::vector<std::string> lines;
  auto complete = [&] {
    lines.push_back(std::exchange(line_, {}));
    returned_ = overwrites_ = false;
    shown_.clear();
  };
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view text = bytes.substr(0, end);
    if (!text.empty()) {
      if (returned_) {
        overwrites_ = true;
        returned_ = false;
        line_.clear();
      }
      line_ += text;
      if (line_.size() > kLongestLine) complete();
    }
    if (end == std::string_view::npos) break;
    if (bytes[end] == '\n') {
      complete();
    } else {
      returned_ = true;
      // "state\r" shows its state at once, but "line\r\n" is no progress.
      if (overwrites_) shown_ = line_;
    }
    bytes.remove_prefix(end + 1);
  }
  if (overwrites_) shown_ = line_;
  return lines;
}

std::optional<std::string> LineSplitter::finish() {
  returned_ = overwrites_ = false;
  shown_.clear();
  if (line_.empty()) return std::nullopt;
  return std::exchange(line_, {});
}

}  // namespace lockstep::cli
