// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/call_site.h"

#include <fmt/format.h>

#include <string_view>

#include "lockstep/base/call_site_reset.h"

namespace lockstep {
namespace {
thread_local CallSite current_site;
}

std::string CallSite::to_string() const {
  if (!known()) return "an unknown place";
  std::string_view path = file;
  if (auto slash = path.rfind('/'); slash != path.npos) path.remove_prefix(slash + 1);
  return fmt::format("{}:{}", path, line);
}

CallSiteScope::CallSiteScope(const CallSite& site) : outermost_(!current_site.known() && site.known()) {
  if (outermost_) current_site = site;
}

CallSiteScope::~CallSiteScope() {
  if (outermost_) current_site = CallSite();
}

const CallSite& CallSiteScope::current() { return current_site; }

CallSiteReset::CallSiteReset() : saved_(current_site) { current_site = CallSite(); }

CallSiteReset::~CallSiteReset() { current_site = saved_; }

}  // namespace lockstep
