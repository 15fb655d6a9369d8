#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Cuts a stream of bytes into lines, so that none is ever torn. Of a line that overwrites itself after
/// carriage returns, as progress bars do, only what was written last counts.
class LineSplitter {
 public:
  /// A line longer than this is passed on in parts.
  static constexpr std::size_t kLongestLine = 1 << 20;

  /// The lines that these bytes complete, without their ends.
  std::vector<std::string> feed(std::string_view bytes);

  /// The stream has ended: what it left unfinished, where that is anything.
  std::optional<std::string> finish();

  /// The unfinished line as a terminal would show it, where it overwrites itself; else empty.
  std::string_view progress() const { return overwrites_ ? shown_ : std::string_view(); }

 private:
  std::string line_;   // since the last carriage return
  std::string shown_;  // the last of the line's states that a carriage return, or the end of the bytes, ended
  bool returned_ = false;
  bool overwrites_ = false;
};

}  // namespace lockstep::cli
