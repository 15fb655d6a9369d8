// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

/// While this object exists, errors on this thread name this operation, unless an enclosing scope has named
/// one. So errors in a composed operation name the function that the user called. `name` must outlive it.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

  /// The name set by the outermost scope of this thread; empty if there is none.
  static std::string_view current();

 private:
  bool outermost_;
};

}  // namespace lockstep
