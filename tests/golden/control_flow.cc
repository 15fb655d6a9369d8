// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/remat.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

const auto sine = [](Array x) { return sin(x); };
const auto twice = [](Array x) { return x * 2; };

Arrays recurrent(const Arrays& a) {
  auto step = [&](Array h, Array v) {
    Array next = tanh(matmul(a[0], h) + v);
    return std::pair(next, sum(next));
  };
  auto [h, sums] = scan(step, zeros({6}), a[1]);
  return {h, sums};
}

Arrays nested(const Arrays& a) {
  auto step = [](Array carry, Array v) {
    auto choice = [](Array c, Array v) {
      return cond(
          sum(v) > 0, sine, [](Array x) { return cos(x); }, c * v);
    };
    return std::pair(remat(choice)(carry, v), index(carry, 0));
  };
  auto [carry, firsts] = scan(step, ones({6}), a[0]);
  return {carry, firsts};
}

}  // namespace

void add_control_flow(Functions& all) {
  all["cond"] = [](const Arrays& a) { return Arrays{cond(sum(a[0]) > 0, sine, twice, a[0])}; };
  all["cond(false)"] = [](const Arrays& a) { return Arrays{cond(sum(a[0]) > 99, sine, twice, a[0])}; };
  all["switch_"] = [](const Arrays& a) {
    auto squared = [](Array x) { return x * x; };
    auto negated = [](Array x) { return -x; };
    return Arrays{switch_(index(a[0], 0), std::tuple(sine, squared, negated), a[1])};
  };
  all["while_loop"] = [](const Arrays& a) {
    return Arrays{while_loop([](const Array& c) { return sum(abs(c)) < 40; },
                             [](const Array& c) { return c * 1.5 + 0.125; }, a[0])};
  };
  all["fori_loop"] = [](const Arrays& a) {
    return Arrays{fori_loop(
        0, 5, [&](const Array& i, const Array& c) { return sin(c) + i * a[0]; }, a[0])};
  };
  all["fori_loop(bounds of arrays)"] = [](const Arrays& a) {
    Array n = index(a[1], 0);
    return Arrays{fori_loop(
        n - 1, n + 2, [&](const Array& i, const Array& c) { return c * a[0] + i; }, a[0])};
  };
  all["scan"] = recurrent;
  all["scan(reverse)"] = [](const Arrays& a) {
    auto [carry, ys] =
        scan([](Array c, Array v) { return std::pair(c * 0.5 + v, c); }, ones({6}), a[0], {.reverse = true});
    return Arrays{carry, ys};
  };
  all["map"] = [](const Arrays& a) {
    return Arrays{map([](const Array& v) { return cumsum(exp(v)); }, a[0])};
  };
  all["remat"] = [](const Arrays& a) {
    return Arrays{remat([](const Array& x) { return sin(exp(x)); })(a[0]) * a[0]};
  };
  all["stop_gradient"] = [](const Arrays& a) { return Arrays{a[0] * stop_gradient(a[0])}; };
  all["custom_jvp"] = [](const Arrays& a) {
    auto softplus = [](const Array& x) { return log(1 + exp(x)); };
    auto f = custom_jvp(softplus, [=](std::tuple<Array> x, std::tuple<Array> t) {
      return std::pair(softplus(std::get<0>(x)), 3 * std::get<0>(t) * std::get<0>(x));
    });
    return Arrays{f(a[0])};
  };
  all["custom_vjp"] = [](const Arrays& a) {
    auto f =
        custom_vjp([](const Array& x) { return x * 2; }, [](const Array& x) { return std::pair(x * 2, x); },
                   [](const Array& x, const Array& ct) { return clip(ct, -0.5, 0.5) * x; });
    return Arrays{f(a[0])};
  };
  all["scan(of a remat of a cond)"] = nested;
}

}  // namespace lockstep::golden
