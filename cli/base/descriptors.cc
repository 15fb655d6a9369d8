// SPDX-License-Identifier: Apache-2.0
#include "cli/base/descriptors.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <optional>

namespace lockstep::cli {
namespace {

std::optional<rlimit> inherited;

rlimit limit_now() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

void raise_descriptor_limit() {
  const rlimit before = limit_now();
  if (!inherited) inherited = before;
  const rlimit raised{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &raised);
}

rlimit inherited_descriptor_limit() { return inherited.value_or(limit_now()); }

long most_descriptors() { return static_cast<long>(std::min<rlim_t>(limit_now().rlim_cur, LONG_MAX)); }

std::string describe_too_few(long processes, long needed) {
  return fmt::format(
      "cannot start {} processes: that takes at least {} descriptors, and the hard limit is {}; raise it "
      "(ulimit -Hn)",
      processes, needed, most_descriptors());
}

}  // namespace lockstep::cli
