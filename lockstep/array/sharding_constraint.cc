// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/sharding_constraint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/array/device_put.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/sharding/placement.h"

namespace lockstep {
namespace {

/// The sharding with its unconstrained dimensions taken from the array's, if that is over the same mesh.
Sharding concrete(const Sharding& sharding, const Array& x) {
  if (sharding.spec().unconstrained().empty()) return sharding;
  std::vector<std::vector<std::string>> entries = sharding.spec().entries();
  const bool same = x.sharding().mesh() == sharding.mesh();
  for (std::int64_t d : sharding.spec().unconstrained()) {
    for (const std::string& axis : x.sharding().spec().axes(static_cast<std::size_t>(d))) {
      const bool used = std::ranges::any_of(
          entries, [&](const auto& axes) { return std::ranges::find(axes, axis) != axes.end(); });
      if (!same || used) break;
      entries[static_cast<std::size_t>(d)].push_back(axis);
    }
  }
  return NamedSharding(sharding.mesh(), PartitionSpec::from_entries(std::move(entries)));
}

}  // namespace

Array with_sharding_constraint(const Array& x, const Sharding& sharding, std::source_location where) {
  CallSiteScope site(CallSite::from(where));
  if (Trace::current() == nullptr) return device_put(x, concrete(sharding, x));
  if (sharding.spec().entries().size() > x.shape().size()) {
    fail<ShardingError>(
        "[with_sharding_constraint] {} has {} entries, but {} has {} dimensions (at {}); give at most one "
        "entry for each",
        sharding.spec().to_string(), sharding.spec().entries().size(), to_string(x.aval()), x.ndim(),
        CallSiteScope::current().to_string());
  }
  return ir::lax::sharding_constraint(x, sharding::placement(sharding.mesh(), sharding.spec()));
}

}  // namespace lockstep
