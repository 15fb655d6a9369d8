// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_reductions(Functions& all) {
  all["sum"] = [](const Arrays& a) { return Arrays{sum(a[0])}; };
  all["sum(axis=0)"] = [](const Arrays& a) { return Arrays{sum(a[0], {.axis = 0})}; };
  all["sum(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{sum(a[0], {.axis = 1, .keepdims = true})};
  };
  all["mean"] = [](const Arrays& a) { return Arrays{mean(a[0])}; };
  all["mean(axis=0)"] = [](const Arrays& a) { return Arrays{mean(a[0], {.axis = 0})}; };
  all["mean(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{mean(a[0], {.axis = 1, .keepdims = true})};
  };
  all["max"] = [](const Arrays& a) { return Arrays{max(a[0])}; };
  all["max(axis=0)"] = [](const Arrays& a) { return Arrays{max(a[0], {.axis = 0})}; };
  all["max(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{max(a[0], {.axis = 1, .keepdims = true})};
  };
  all["min"] = [](const Arrays& a) { return Arrays{min(a[0])}; };
  all["min(axis=0)"] = [](const Arrays& a) { return Arrays{min(a[0], {.axis = 0})}; };
  all["min(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{min(a[0], {.axis = 1, .keepdims = true})};
  };
  all["var"] = [](const Arrays& a) { return Arrays{var(a[0])}; };
  all["var(axis=0)"] = [](const Arrays& a) { return Arrays{var(a[0], {.axis = 0})}; };
  all["var(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{var(a[0], {.axis = 1, .keepdims = true})};
  };
  all["std"] = [](const Arrays& a) { return Arrays{std_(a[0])}; };
  all["std(axis=0)"] = [](const Arrays& a) { return Arrays{std_(a[0], {.axis = 0})}; };
  all["std(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{std_(a[0], {.axis = 1, .keepdims = true})};
  };
  all["ptp"] = [](const Arrays& a) { return Arrays{ptp(a[0])}; };
  all["ptp(axis=0)"] = [](const Arrays& a) { return Arrays{ptp(a[0], {.axis = 0})}; };
  all["ptp(axis=1, keepdims)"] = [](const Arrays& a) {
    return Arrays{ptp(a[0], {.axis = 1, .keepdims = true})};
  };
  all["prod(axis=1)"] = [](const Arrays& a) { return Arrays{prod(a[0], 1)}; };
  all["var(ddof=1)"] = [](const Arrays& a) { return Arrays{var(a[0], {.axis = 1, .ddof = 1})}; };
  all["logsumexp(axis=1)"] = [](const Arrays& a) { return Arrays{logsumexp(a[0], 1)}; };
  all["any(axis=1)"] = [](const Arrays& a) { return Arrays{lockstep::any(a[0], 1)}; };
  all["all(axis=1)"] = [](const Arrays& a) { return Arrays{lockstep::all(a[0], 1)}; };
  all["argmax(axis=1)"] = [](const Arrays& a) { return Arrays{argmax(a[0], 1)}; };
  all["argmin(axis=1)"] = [](const Arrays& a) { return Arrays{argmin(a[0], 1)}; };
  all["nanargmax(axis=1)"] = [](const Arrays& a) { return Arrays{nanargmax(a[0], 1)}; };
  all["nanargmin(axis=1)"] = [](const Arrays& a) { return Arrays{nanargmin(a[0], 1)}; };
  all["count_nonzero(axis=0)"] = [](const Arrays& a) { return Arrays{count_nonzero(a[0], {.axis = 0})}; };
  all["nansum(axis=1)"] = [](const Arrays& a) { return Arrays{nansum(a[0], {.axis = 1})}; };
  all["nanmean(axis=1)"] = [](const Arrays& a) { return Arrays{nanmean(a[0], {.axis = 1})}; };
  all["nanmax(axis=1)"] = [](const Arrays& a) { return Arrays{nanmax(a[0], {.axis = 1})}; };
  all["nanmin(axis=1)"] = [](const Arrays& a) { return Arrays{nanmin(a[0], {.axis = 1})}; };
  all["nanvar(axis=1)"] = [](const Arrays& a) { return Arrays{nanvar(a[0], {.axis = 1})}; };
  all["nanstd(axis=1)"] = [](const Arrays& a) { return Arrays{nanstd(a[0], {.axis = 1})}; };
  all["nanprod(axis=1)"] = [](const Arrays& a) { return Arrays{nanprod(a[0], {.axis = 1})}; };
  all["average(weights)"] = [](const Arrays& a) { return Arrays{average(a[0], a[1], {.axis = 1})}; };
  all["cov"] = [](const Arrays& a) { return Arrays{cov(a[0])}; };
  all["corrcoef"] = [](const Arrays& a) { return Arrays{corrcoef(a[0])}; };
}

}  // namespace lockstep::golden
