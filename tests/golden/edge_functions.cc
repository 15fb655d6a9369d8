// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>

#include "lockstep/nn/activations.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using OfOne = Array (*)(const Array&);
using OfTwo = Array (*)(const Array&, const Array&);

void add_unary(Functions& all) {
  const std::pair<const char*, OfOne> functions[] = {
      {"conj", [](const Array& x) { return conj(x); }},
      {"imag", [](const Array& x) { return imag(x); }},
      {"iscomplex", [](const Array& x) { return iscomplex(x); }},
      {"isreal", [](const Array& x) { return isreal(x); }},
      {"power(x, 0)", [](const Array& x) { return power(x, 0); }},
      {"power(x, 0.5)", [](const Array& x) { return power(x, 0.5); }},
      {"real", [](const Array& x) { return real(x); }},
      {"angle", [](const Array& x) { return angle(x); }},
      {"clip(-1, 2)", [](const Array& x) { return clip(x, -1, 2); }},
      {"stop_gradient", [](const Array& x) { return stop_gradient(x); }},
  };
  for (const auto& [name, f] : functions) all[name] = [f = f](const Arrays& a) { return Arrays{f(a[0])}; };
  all["frexp"] = [](const Arrays& a) {
    auto [mantissa, exponent] = frexp(a[0]);
    return Arrays{mantissa, exponent};
  };
  for (std::size_t i = 0; i < kNumDTypes; ++i) {
    const DType to = static_cast<DType>(i);
    all[fmt::format("astype({})", info(to).numpy_name)] = [to](const Arrays& a) {
      return Arrays{astype(a[0], to)};
    };
  }
}

void add_binary(Functions& all) {
  const std::pair<const char*, OfTwo> functions[] = {
      {"isclose", [](const Array& x, const Array& y) { return isclose(x, y); }},
      {"float_power", [](const Array& x, const Array& y) { return float_power(x, y); }},
      {"where", [](const Array& x, const Array& y) { return where(x, x, y); }},
      {"clamp", [](const Array& x, const Array& y) { return clamp(minimum(x, y), x, y); }},
  };
  for (const auto& [name, f] : functions)
    all[name] = [f = f](const Arrays& a) { return Arrays{f(a[0], a[1])}; };
}

void add_rows(Functions& all) {
  const std::pair<const char*, OfOne> functions[] = {
      {"sum(axis=1)", [](const Array& x) { return sum(x, 1); }},
      {"prod(axis=1)", [](const Array& x) { return prod(x, 1); }},
      {"max(axis=1)", [](const Array& x) { return max(x, 1); }},
      {"min(axis=1)", [](const Array& x) { return min(x, 1); }},
      {"mean(axis=1)", [](const Array& x) { return mean(x, 1); }},
      {"var(axis=1)", [](const Array& x) { return var(x, 1); }},
      {"std(axis=1)", [](const Array& x) { return std_(x, 1); }},
      {"ptp(axis=1)", [](const Array& x) { return ptp(x, {.axis = 1}); }},
      {"all(axis=1)", [](const Array& x) { return lockstep::all(x, 1); }},
      {"count_nonzero(axis=1)", [](const Array& x) { return count_nonzero(x, {.axis = 1}); }},
      {"median(axis=1)", [](const Array& x) { return median(x, 1); }},
      {"quantile(0.3)", [](const Array& x) { return quantile(x, 0.3, {.axis = 1}); }},
      {"quantile(lower)", [](const Array& x) { return quantile(x, 0.3, {.axis = 1, .method = "lower"}); }},
      {"cumsum(rows)", [](const Array& x) { return cumsum(x, 1); }},
      {"cumprod(rows)", [](const Array& x) { return cumprod(x, 1); }},
      {"cummax(rows)", [](const Array& x) { return cummax(x, 1); }},
      {"cummin(rows)", [](const Array& x) { return cummin(x, 1); }},
      {"cumlogsumexp(rows)", [](const Array& x) { return cumlogsumexp(x, 1); }},
      {"diff(rows)", [](const Array& x) { return diff(x, 1, 1); }},
      {"sort(rows)", [](const Array& x) { return sort(x, 1); }},
      {"argsort(rows)", [](const Array& x) { return argsort(x, 1); }},
      {"sort(descending)", [](const Array& x) { return sort(x, {.axis = 1, .descending = true}); }},
      {"argsort(descending)", [](const Array& x) { return argsort(x, {.axis = 1, .descending = true}); }},
      {"unique", [](const Array& x) { return unique(x, 9); }},
      {"searchsorted", [](const Array& x) { return searchsorted(sort(x[-1], 0), x); }},
      {"searchsorted(right)",
       [](const Array& x) { return searchsorted(sort(x[4 % x.shape()[0]], 0), x, "right"); }},
      {"cov", [](const Array& x) { return cov(x); }},
      {"corrcoef", [](const Array& x) { return corrcoef(x); }},
      {"average(weights)",
       [](const Array& x) { return average(x, arange(x.shape()[1], float32), {.axis = 1}); }},
      {"matmul", [](const Array& x) { return matmul(x, transpose(x)); }},
      {"dot", [](const Array& x) { return dot(x, x[3]); }},
      {"vdot", [](const Array& x) { return vdot(x[-1], x[2]); }},
      {"outer", [](const Array& x) { return outer(x[-1], x[1]); }},
      {"einsum(ij,ij->i)",
       [](const Array& x) {
         return einsum("ij,ij->i", {x, x});
       }},
      {"linalg::norm(axis=1)", [](const Array& x) { return linalg::norm(x, {.axis = 1}); }},
      {"reshape", [](const Array& x) { return reshape(x, {-1}); }},
      {"flip", [](const Array& x) { return flip(x, 1); }},
      {"roll", [](const Array& x) { return roll(x, 1, 1); }},
  };
  for (const auto& [name, f] : functions) all[name] = [f = f](const Arrays& a) { return Arrays{f(a[0])}; };
  for (double order : {0.0, 1.0, 3.0, kInfinity, -kInfinity}) {
    all[fmt::format("linalg::norm(ord={}, axis=1)", order)] = [order](const Arrays& a) {
      return Arrays{linalg::norm(a[0], {.ord = order, .axis = 1})};
    };
  }
  all["top_k"] = [](const Arrays& a) {
    auto [values, places] = top_k(a[0], a[0].shape()[1]);
    return Arrays{values, places};
  };
  all["nonzero"] = [](const Arrays& a) { return nonzero(a[0], 20); };
}

}  // namespace

const Functions& edge_functions() {
  static const Functions all = [] {
    Functions all;
    add_elementwise(all);
    add_special(all);
    add_reductions(all);
    add_neural(all);
    add_unary(all);
    add_binary(all);
    add_rows(all);
    all["var(ddof=1)"] = [](const Arrays& a) { return Arrays{var(a[0], {.axis = 1, .ddof = 1})}; };
    return all;
  }();
  return all;
}

}  // namespace lockstep::golden
