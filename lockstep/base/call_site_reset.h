#pragma once

#include "lockstep/base/call_site.h"

namespace lockstep {

/// For its lifetime, and on this thread, the scopes around it name no place: scopes within it do. For
/// equations of programs within programs, which keep their own places.
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
