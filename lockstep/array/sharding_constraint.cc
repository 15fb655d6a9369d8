#include "lockstep/array/sharding_constraint.h"

#include "lockstep/array/device_put.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/sharding/placement.h"

namespace lockstep {

Array with_sharding_constraint(const Array& x, const Sharding& sharding, std::source_location where) {
  CallSiteScope site(CallSite::from(where));
  if (Trace::current() == nullptr) return device_put(x, sharding);
  if (sharding.spec().entries().size() > x.shape().size()) {
    fail<ShardingError>(
        "[with_sharding_constraint] {} has {} entries, but {} has {} dimensions (at {}); give at most one "
        "entry "
        "for each",
        sharding.spec().to_string(), sharding.spec().entries().size(), to_string(x.aval()), x.ndim(),
        CallSiteScope::current().to_string());
  }
  return lax::sharding_constraint(x, sharding::placement(sharding.mesh(), sharding.spec()));
}

}  // namespace lockstep
