#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

/// A place in the user's source.
struct CallSite {
  const char* file = "";
  std::uint32_t line = 0;
  const char* function = "";

  static CallSite from(const std::source_location& where) {
    return {where.file_name(), where.line(), where.function_name()};
  }
  bool known() const { return line != 0; }

  /// "train.cc:42", with the file's name only; "an unknown place" where it is not known.
  std::string to_string() const;
};

/// For its lifetime, and on this thread, operations are said to come from this place, unless an enclosing
/// scope has named one: so that a composed operation's parts point at the user's line and not at the
/// library's.
class CallSiteScope {
 public:
  explicit CallSiteScope(const CallSite& site);
  ~CallSiteScope();
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;

  /// The place that the outermost scope of this thread names.
  static const CallSite& current();

 private:
  bool outermost_;
};

}  // namespace lockstep
