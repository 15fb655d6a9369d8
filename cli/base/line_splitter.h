// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Splits a stream of bytes into lines, so that lines are never mixed. If a line overwrites itself after
/// carriage returns, as progress bars do, only its last state counts.
class LineSplitter {
 public:
  /// A longer line is passed on in parts.
  static constexpr std::size_t kLongestLine = 1 << 20;

  /// The lines that are completed by these bytes, without their ends.
  std::vector<std::string> feed(std::string_view bytes);

  /// The stream has ended: returns the unfinished line, if there is one.
  std::optional<std::string> finish();

  /// The unfinished line as a terminal would show it, if it overwrites itself; else empty.
  std::string_view progress() const { return overwrites_ ? shown_ : std::string_view(); }

 private:
  std::string line_;   // since the last carriage return
  std::string shown_;  // the last complete state of the line, which ended with a carriage return or at the
                       // end of the bytes
  bool returned_ = false;
  bool overwrites_ = false;
};

}  // namespace lockstep::cli
