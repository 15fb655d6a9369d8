// SPDX-License-Identifier: Apache-2.0
// Decompositions in transformations, beyond what tests/golden compares with JAX's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::floats;
using ::testing::HasSubstr;

Array matrix() {
  return array({{2.f, 0.5f, -1.f, 0.25f},
                {0.75f, -1.5f, 0.5f, 1.f},
                {-0.5f, 1.f, 3.f, -0.25f},
                {1.f, 0.25f, 0.5f, 2.f}});
}
Array vector() { return array({1.f, -2.f, 0.5f, 1.5f}); }

TEST(SecondDerivatives, SolvePinvAndDeterminants_AgreeWithTheirFormulas) {
  // d²/dt² f(a + t d) at 0, by the rule's derivative, and by what it is.
  const Array a = matrix(), d = outer(vector(), flip(vector())) * 0.25, b = vector();
  auto second = [&](const auto& f) {
    auto along = [&](Array t) { return f(a + t * d); };
    return jacfwd(jacfwd(along))(zeros({}));
  };
  const Array inverse = linalg::inv(a), moved = matmul(inverse, d);
  expect_close(second([&](const Array& x) { return linalg::solve(x, b); }),
               floats(2 * matmul(matmul(moved, moved), matmul(inverse, b))), 1e-4);
  expect_close(second([](const Array& x) { return linalg::pinv(x); }),
               floats(2 * matmul(matmul(moved, moved), inverse)), 1e-4);
  const Array trace_of_moved = trace(moved);
  expect_close(second([](const Array& x) { return linalg::slogdet(x).second; }),
               floats(-trace(matmul(moved, moved))), 1e-4);
  expect_close(second([](const Array& x) { return linalg::det(x); }),
               floats(linalg::det(a) * (square(trace_of_moved) - trace(matmul(moved, moved)))), 1e-3);
}

TEST(Gradients, TheDeterminantOfALowRankMatrix_GivesItsCofactors) {
  auto gradient = [](const Array& x) { return grad([](Array y) { return linalg::det(y); })(x); };
  const Array almost = diag(array({1.f, 2.f, 3.f, 0.f}));
  expect_close(gradient(almost), floats(diag(array({0.f, 0.f, 0.f, 6.f}))), 1e-6);
  expect_close(gradient(diag(array({1.f, 2.f, 0.f, 0.f}))), floats(zeros({4, 4})), 1e-6);
}

/// q is not computed if only r is used.
TEST(Jit, QrOfWhichOnlyRIsUsed_GivesTheSameR) {
  for (const std::int64_t n : {5, 130}) {
    const Array x = reshape(sin(arange(n * n) * 0.7), {n, n});
    const Array r = jit([](Array x) { return linalg::qr(x).r; })(x);
    EXPECT_EQ(floats(r), floats(linalg::qr(x).r));
  }
}

/// d/dt expm(t x) = x expm(t x), in both modes, where t x is squared never, or several times, or on some
/// devices or for some elements only.
TEST(Gradients, ExpmOfEachMagnitude_HasTheRightGradient) {
  const Array x = matrix() * 0.5, sizes = array({0.f, 0.1f, 1.f, 2.f, -0.5f, 3.f, 0.3f, 4.f});
  auto f = [&](Array t) { return sum(linalg::expm(t * x)); };
  std::vector<float> expected;
  for (const float t : floats(sizes)) expected.push_back(sum(matmul(x, linalg::expm(t * x))).item<float>());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Array t = test::number(floats(sizes)[i]);
    expect_close(grad(f)(t), {expected[i]}, 1e-4);
    expect_close(jacfwd(f)(t), {expected[i]}, 1e-4);
  }
  expect_close(vmap(grad(f))(sizes), expected, 1e-4);
  auto on_each = jit(shard_map([&](Array part) { return vmap(grad(f))(part); },
                               {.mesh = test::line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}}));
  expect_close(on_each(sizes), expected, 1e-4);
  auto one_each = jit(shard_map([&](Array part) { return reshape(grad(f)(part[{0}]), {1}); },
                                {.mesh = test::line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}}));
  const std::size_t of_each = expected.size() / static_cast<std::size_t>(test::line_mesh().size());
  std::vector<float> first;
  for (std::size_t i = 0; i < expected.size(); i += of_each) first.push_back(expected[i]);
  expect_close(one_each(sizes), first, 1e-4);
}

TEST(Derivatives, OfOperationsWithoutOne_AreErrors) {
  auto refused = [](const auto& f) {
    return error_of<TraceError>([&] { grad([&](Array x) { return sum(abs(f(x))); })(matrix()); });
  };
  EXPECT_THAT(refused([](const Array& x) { return linalg::eig(x).eigenvectors; }),
              HasSubstr("[linalg::eig] the eigenvectors have no derivative"));
  EXPECT_THAT(refused([](const Array& x) { return linalg::schur(x).t; }),
              HasSubstr("[linalg::schur] has no derivative"));
  EXPECT_THAT(refused([](const Array& x) { return linalg::sqrtm(x); }),
              HasSubstr("[linalg::sqrtm] has no derivative"));
}

}  // namespace
}  // namespace lockstep
