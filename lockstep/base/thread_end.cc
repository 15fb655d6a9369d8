// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/thread_end.h"

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

constinit thread_local bool has_ended = false;  // without a destructor: it can be read afterwards

struct End {
  bool before = true;
  ~End() { has_ended = true; }
};
thread_local End at_end;

}  // namespace

void check_before_end(std::string_view operation) {
  if (!has_ended && at_end.before) return;  // which makes `at_end` at the thread's first use
  fail(
      "[{}] called (at {}) in the destructor of a global or static object, after main has ended: the "
      "library's own objects are being destroyed, too. Compute before main returns; arrays may live longer, "
      "but must not be used in computations",
      operation, CallSiteScope::current().to_string());
}

}  // namespace lockstep
