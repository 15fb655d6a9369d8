// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

/// A position in the user's source.
struct CallSite {
  const char* file = "";
  std::uint32_t line = 0;
  const char* function = "";
  const std::string* named_scope =
      nullptr;  ///< the scopes that it stands in (named_scope.h); they live forever

  static CallSite from(const std::source_location& where) {
    return {where.file_name(), where.line(), where.function_name()};
  }
  bool known() const { return line != 0; }

  /// "train.cc:42", with the file's name only; "an unknown place" where it is not known.
  std::string to_string() const;
};

/// While this object exists, operations on this thread are attributed to this call site, unless an enclosing
/// scope has set one. So the parts of a composed operation point to the user's line and not to the
/// library's.
class CallSiteScope {
 public:
  explicit CallSiteScope(const CallSite& site);
  ~CallSiteScope();
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;

  /// The call site of the outermost scope of this thread.
  static const CallSite& current();

 private:
  bool outermost_;
};

}  // namespace lockstep
