#pragma once

#include <string_view>

namespace lockstep {

/// For its lifetime, and on this thread, errors name this operation, unless an enclosing scope has named one:
/// so that a composed operation's parts fail in the name of what the user called. `name` outlives it.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

  /// The name that the outermost scope of this thread gave; empty without one.
  static std::string_view current();

 private:
  bool outermost_;
};

}  // namespace lockstep
