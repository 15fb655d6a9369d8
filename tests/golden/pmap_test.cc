// SPDX-License-Identifier: Apache-2.0
// Derivatives under pmap against what JAX gives for them (pmap.py): each device differentiates its own copy.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/family.h"

namespace lockstep {
namespace {

using golden::compared;
using golden::numbers;

/// f(w, x) for a w that every device gets, and x by rows; then the same with a captured w.
template <class F>
void expect_jaxs(const std::string& name, F f, std::optional<int> out_axes = 0) {
  const Array w = numbers({3}, 1), x = numbers({2, 3}, 2);
  const auto given = pmap(f, {.in_axes = {std::nullopt, 0}, .out_axes = out_axes});
  golden::expect_named(name, given(w, x), {1e-5, 1e-6});
  const auto captured = pmap([&](const Array& x) { return f(w, x); }, {.out_axes = out_axes});
  golden::expect_named(name + ", captured", captured(x), {1e-5, 1e-6});
}

TEST(Pmap, Derivatives_EqualJaxs) {
  auto loss = [](const Array& w, const Array& x) { return sum(power(w * x + 0.5, 3)); };
  auto mean_loss = [&](const Array& w, const Array& x) { return pmean(loss(w, x), "i"); };
  auto sum_loss = [&](const Array& w, const Array& x) { return psum(loss(w, x), "i"); };
  auto within = [](const Array& w, const Array& x) { return sum(x * square(psum(w * x, "i"))); };
  auto gathered = [](const Array& w, const Array& x) { return sum(square(all_gather(w * x, "i"))); };
  auto moved = [](const Array& w, const Array& x) { return sum(x * ppermute(w * x, "i", {{0, 1}, {1, 0}})); };
  auto scanned = [](const Array& w, const Array& x) {
    auto step = [&](const Array& c, const Array& row) {
      return std::pair(c + sum(square(psum(w * row, "i")) * row), row);
    };
    return scan(step, zeros({}), stack({x, w})).first;
  };

  expect_jaxs("grad", grad(loss));
  expect_jaxs(
      "pmean of grad", [&](const Array& w, const Array& x) { return pmean(grad(loss)(w, x), "i"); },
      std::nullopt);
  expect_jaxs("grad of pmean", grad(mean_loss));
  expect_jaxs("grad of psum", grad(sum_loss));
  expect_jaxs("grad of psum by x", grad<1>(sum_loss));
  expect_jaxs("grad of a psum within", grad(within));
  expect_jaxs("grad of a psum of w alone",
              grad([](const Array& w, const Array&) { return sum(psum(w * w, "i")); }));
  expect_jaxs(
      "value of value_and_grad",
      [&](const Array& w, const Array& x) { return value_and_grad(mean_loss)(w, x).first; }, std::nullopt);
  expect_jaxs("grad of w alone", grad([](const Array& w, const Array&) { return sum(power(w, 3)); }),
              std::nullopt);
  auto summed = [](const Array& x) { return [x](const Array& w) { return psum(w * x, "i"); }; };
  auto squared = [](const Array& x) { return [x](const Array& w) { return psum(w * w * x, "i"); }; };
  expect_jaxs("vjp",
              [&](const Array& w, const Array& x) { return std::get<0>(vjp(summed(x), w).second(x)); });
  expect_jaxs("vjp with a cotangent of all",
              [&](const Array& w, const Array& x) { return std::get<0>(vjp(summed(x), w).second(w)); });
  expect_jaxs("jvp", [&](const Array& w, const Array& x) {
    return jvp(squared(x), std::tuple(w), std::tuple(w)).second;
  });
  expect_jaxs("jacrev", [&](const Array& w, const Array& x) { return jacrev(squared(x))(w); });
  expect_jaxs("jacfwd", [&](const Array& w, const Array& x) { return jacfwd(squared(x))(w); });
  expect_jaxs("hessian", [&](const Array& w, const Array& x) { return hessian(mean_loss)(w, x); });
  expect_jaxs("grad of grad",
              grad([&](const Array& w, const Array& x) { return sum(square(grad(mean_loss)(w, x))); }));
  expect_jaxs("grad of all_gather", grad(gathered));
  expect_jaxs("grad of ppermute", grad(moved));
  expect_jaxs("grad of axis_index",
              grad([](const Array& w, const Array&) { return sum(w * w * axis_index("i")); }));
  expect_jaxs("grad of a scan", grad(scanned));
  expect_jaxs("grad by a number", [&](const Array& w, const Array& x) {
    return grad([&](const Array& c) { return pmean(sum(c * c * w * x), "i"); })(2.0);
  });
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep
