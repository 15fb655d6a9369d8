// SPDX-License-Identifier: Apache-2.0
// Under vmap all examples compute all branches: the branches that an example does not take change nothing,
// whatever poles they have there.

#include <functional>
#include <utility>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::number;

/// Each has a pole, or an infinite derivative, at one of kPoints.
const std::vector<std::function<Array(Array)>> kBranches = {
    [](Array x) { return sqrt(x); },
    [](Array x) { return log(x) / x; },
    [](Array x) { return 1. / x; },
    [](Array x) { return power(x, 0.3); },
    [](Array x) { return arcsin(x / 4) + x * log(x); },
    [](Array x) { return exp(1e3 * x) * x; },
    [](Array x) { return 2 * x; }};
const std::vector<float> kPoints = {0, 4, -1, 0.5F, -4, 9};

/// The branch of each point, and the point.
Array choose(Array i, Array x) { return switch_(i, kBranches, x); }

/// Every pair of a branch and a point at which it is finite, as are its first and second derivatives.
std::pair<Array, Array> finite_pairs() {
  std::vector<int> branches;
  std::vector<float> points;
  for (int b = 0; b < static_cast<int>(kBranches.size()); ++b) {
    for (float point : kPoints) {
      const auto slope = grad([b](Array x) { return choose(number(b), x); });
      const float second = grad(slope)(number(point)).item<float>();
      if (!std::isfinite(second) || !std::isfinite(slope(number(point)).item<float>())) continue;
      branches.push_back(b);
      points.push_back(point);
    }
  }
  return {array(branches), array(points)};
}

/// The function of each example by itself.
template <class F>
Array one_by_one(F f, const Array& is, const Array& xs) {
  std::vector<Array> all;
  for (std::int64_t k = 0; k < is.shape()[0]; ++k) all.push_back(f(is[k], xs[k]));
  return stack(all);
}

TEST(VmappedCond, Gradients_AreThoseOfTheBranchTaken) {
  const auto [is, xs] = finite_pairs();
  ASSERT_GT(is.shape()[0], 12);
  const auto slope = [](Array i, Array x) { return grad([i](Array x) { return choose(i, x); })(x); };
  const auto second = [&](Array i, Array x) { return grad([&](Array x) { return slope(i, x); })(x); };
  const auto all = [&](Array x) { return sum(vmap(choose)(is, x)); };
  expect_equal(grad(all)(xs), one_by_one(slope, is, xs));
  expect_equal(jit(grad(all))(xs), one_by_one(slope, is, xs));
  expect_equal(jvp(all, std::tuple(xs), std::tuple(ones_like(xs))).second, sum(one_by_one(slope, is, xs)));
  const auto slopes = [&](Array x) { return sum(grad(all)(x)); };
  expect_equal(grad(slopes)(xs), one_by_one(second, is, xs), 1e-4);
}

TEST(VmappedCond, GradientsOfSharedValues_AreThoseOfTheBranchTaken) {
  const Array is = array({0, 1, 1}), xs = array({4.F, 0.F, 2.F});
  const auto loss = [&](Array w) {
    return sum(vmap([&](Array i, Array x) {
      return cond(
          i == 0, [&] { return w / x; }, [&] { return w * x; });
    })(is, xs));
  };
  expect_equal(grad(loss)(number(3.F)), number(2.25F));
}

}  // namespace
}  // namespace lockstep
