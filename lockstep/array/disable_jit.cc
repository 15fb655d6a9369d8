// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/disable_jit.h"

#include <utility>

#include "lockstep/array/trace.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

constexpr int kUnsaid = -1;
thread_local int innermost = kUnsaid;

}  // namespace

DisableJit::DisableJit(bool disable) : before_(std::exchange(innermost, disable ? 1 : 0)) {}
DisableJit::~DisableJit() { innermost = before_; }

bool internal::jit_is_disabled() {
  if (Trace::current() != nullptr) return false;
  return innermost == kUnsaid ? *runtime::Runtime::get().options().disable_jit : innermost == 1;
}

}  // namespace lockstep
