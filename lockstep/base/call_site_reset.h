// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/call_site.h"

namespace lockstep {

/// While this object exists, enclosing scopes on this thread set no call site, but scopes within it do. For
/// equations of nested programs, which keep their own call sites.
class CallSiteReset {
 public:
  CallSiteReset();
  ~CallSiteReset();
  CallSiteReset(const CallSiteReset&) = delete;
  CallSiteReset& operator=(const CallSiteReset&) = delete;

 private:
  CallSite saved_;
};

}  // namespace lockstep
