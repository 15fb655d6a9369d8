// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_special(Functions& all) {
  all["erf"] = [](const Arrays& a) { return Arrays{erf(a[0])}; };
  all["erfc"] = [](const Arrays& a) { return Arrays{erfc(a[0])}; };
  all["erf_inv"] = [](const Arrays& a) { return Arrays{erf_inv(a[0])}; };
  all["gammaln"] = [](const Arrays& a) { return Arrays{gammaln(a[0])}; };
  all["digamma"] = [](const Arrays& a) { return Arrays{digamma(a[0])}; };
  all["gamma"] = [](const Arrays& a) { return Arrays{gamma(a[0])}; };
  all["factorial"] = [](const Arrays& a) { return Arrays{factorial(a[0])}; };
  all["entr"] = [](const Arrays& a) { return Arrays{entr(a[0])}; };
  all["logit"] = [](const Arrays& a) { return Arrays{logit(a[0])}; };
  all["ndtr"] = [](const Arrays& a) { return Arrays{ndtr(a[0])}; };
  all["ndtri"] = [](const Arrays& a) { return Arrays{ndtri(a[0])}; };
  all["gammaln(negative)"] = [](const Arrays& a) { return Arrays{gammaln(a[0])}; };
  all["polygamma(1)"] = [](const Arrays& a) { return Arrays{polygamma(1, a[0])}; };
  all["betaln"] = [](const Arrays& a) { return Arrays{betaln(a[0], a[1])}; };
  all["xlogy"] = [](const Arrays& a) { return Arrays{xlogy(a[0], a[1])}; };
  all["xlog1py"] = [](const Arrays& a) { return Arrays{xlog1py(a[0], a[1])}; };
  all["abs(complex)"] = [](const Arrays& a) { return Arrays{abs(complex(a[0], a[1]))}; };
  all["real(exp(complex))"] = [](const Arrays& a) { return Arrays{real(exp(complex(a[0], a[1])))}; };
  all["imag(x * conj(y))"] = [](const Arrays& a) {
    return Arrays{imag(complex(a[0], a[1]) * conj(complex(a[1], a[0])))};
  };
  all["angle"] = [](const Arrays& a) { return Arrays{angle(complex(a[0], a[1]))}; };
}

}  // namespace lockstep::golden
