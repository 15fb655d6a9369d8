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
  check_divisible(x.aval(), sharding.spec(), sharding.mesh(),
                  fmt::format("with_sharding_constraint (at {})", CallSiteScope::current().to_string()));
  return lax::sharding_constraint(x, sharding::placement(sharding.mesh(), sharding.spec()));
}

}  // namespace lockstep
