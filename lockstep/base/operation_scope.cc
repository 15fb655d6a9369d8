// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/operation_scope.h"

namespace lockstep {
namespace {
thread_local std::string_view current_operation;
}

OperationScope::OperationScope(std::string_view name) : outermost_(current_operation.empty()) {
  if (outermost_) current_operation = name;
}

OperationScope::~OperationScope() {
  if (outermost_) current_operation = {};
}

std::string_view OperationScope::current() { return current_operation; }

}  // namespace lockstep
