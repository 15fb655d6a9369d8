// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/derivatives.h"

#include <cmath>
#include <limits>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::waves;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

struct Pair {
  Array a, b;
};

Array wavy(const Array& x) { return sin(x) * x; }
Array wavy_slope(const Array& x) { return cos(x) * x + sin(x); }

TEST(Jvp, GivesTheValueAndTheDerivativeAlongTheTangent) {
  Array x = waves({3}), dx = waves({3}, 2);
  auto [value, tangent] = jvp(wavy, std::tuple(x), std::tuple(dx));
  expect_equal(value, wavy(x));
  expect_equal(tangent, wavy_slope(x) * dx);
}

TEST(Jvp, TreesAndSeveralArguments_TakeTreesOfTangents) {
  auto f = [](const Pair& p, const Array& y) { return Pair{p.a * y, p.b + y}; };
  Array a = waves({3}), b = waves({3}, 2), y = waves({3}, 3), one = ones({3}), none = zeros({3});
  auto [value, tangent] = jvp(f, std::tuple(Pair{a, b}, y), std::tuple(Pair{one, none}, one));
  expect_equal(value.a, a * y);
  expect_equal(tangent.a, y + a);
  expect_equal(tangent.b, one);
}

TEST(Vjp, GivesTheValueAndAFunctionOfCotangents) {
  auto f = [](const Array& x, const Array& y) { return std::pair(x * y, sum(exp(x))); };
  Array x = waves({3}), y = waves({3}, 2), ct = waves({3}, 3);
  auto [value, pull] = vjp(f, x, y);
  expect_equal(value.first, x * y);
  auto [dx, dy] = pull({ct, Array(2.0) * 1});
  expect_equal(dx, ct * y + 2 * exp(x));
  expect_equal(dy, ct * x);
  auto [dx0, dy0] = pull({zeros({3}), zeros({})});
  expect_equal(dx0, zeros({3}));
}

TEST(Vjp, InsideOfJit_GivesTheSame) {
  Array x = waves({3}), ct = waves({3}, 3);
  Array inside = jit([](Array x, Array ct) {
    auto [value, pull] = vjp(wavy, x);
    return std::get<0>(pull(ct)) + 0 * value;
  })(x, ct);
  expect_equal(inside, wavy_slope(x) * ct);
}

TEST(Vjp, ACotangentOfAnotherShapeOrDType_IsAnErrorAtTheUsersLine) {
  auto [value, pull] = vjp(wavy, waves({3}));
  EXPECT_THAT(error_of<ShapeError>([&] { pull(ones({2})); }),
              AllOf(HasSubstr("[vjp] expected a cotangent of f32[3], got f32[2]"),
                    HasSubstr("derivatives_test.cc:")));
  EXPECT_THAT(error_of<DTypeError>([&] { pull(ones({3}, float64)); }),
              HasSubstr("[vjp] expected a cotangent of f32[3], got f64[3]"));
}

TEST(Linearize, GivesALinearFunctionOfTangents) {
  Array x = waves({3}), dx = waves({3}, 2);
  auto [value, push] = linearize(wavy, x);
  expect_equal(value, wavy(x));
  expect_equal(push(std::tuple(dx)), wavy_slope(x) * dx);
  expect_equal(push(std::tuple(2 * dx)), 2 * wavy_slope(x) * dx);
}

TEST(Linearize, IntegersBesideFloats_AreLeftOut) {
  auto f = [](const Array& x, const Array& n) { return std::pair(x * n, n + 1); };
  Array x = waves({3}), n = array({1, 2, 3});
  auto [value, push] = linearize(f, x, n);
  auto [dx, dn] = push(std::tuple(ones({3}), n));
  expect_equal(dx, astype(n, float32));
  EXPECT_EQ(dn.dtype(), int32);
}

TEST(Jacobian, ForwardAndReverse_GiveTheMatrixOfDerivatives) {
  Array m = waves({4, 3}), x = waves({3}, 2);
  auto f = [](const Array& m, const Array& x) { return sin(matmul(m, x)); };
  Array expected = expand_dims(cos(matmul(m, x)), 1) * m;
  expect_equal(jacfwd<1>(f)(m, x), expected);
  expect_equal(jacrev<1>(f)(m, x), expected);
  EXPECT_EQ(jacrev(f)(m, x).shape(), (Shape{4, 4, 3}));
  expect_equal(jacrev(f)(m, x), jacfwd(f)(m, x));
}

TEST(Jacobian, FunctionsFromAndToTrees_HaveTreesOfJacobians) {
  Array x = waves({3}), y = waves({3}, 2);
  auto both = [](const Array& x) { return Pair{sum(x * x), 2 * x}; };
  Pair forwards = jacfwd(both)(x), backwards = jacrev(both)(x);
  expect_equal(forwards.a, 2 * x);
  expect_equal(forwards.b, 2 * eye(3));
  expect_equal(backwards.a, forwards.a);
  expect_equal(backwards.b, forwards.b);
  auto by_both = [](const Pair& p) { return p.a * sum(p.b); };
  Pair by = jacrev(by_both)(Pair{x, y});
  expect_equal(by.a, eye(3) * sum(y));
  expect_equal(by.b, broadcast_to(expand_dims(x, 1), {3, 3}));
  Pair by_forwards = jacfwd(by_both)(Pair{x, y});
  expect_equal(by_forwards.b, by.b);
}

Array logistic_of(const Array& x) { return 1. / (1. + exp(-x)); }

TEST(Hessian, Logaddexp_IsRightWhereTheOperandsAreEqual) {
  auto second = [](const Array& x) { return logistic_of(x) * logistic_of(-x); };
  for (float apart : {-3.f, -1.f, -0.5f, 0.f, 0.5f, 1.f, 3.f}) {
    SCOPED_TRACE(apart);
    const Array x = array({1.f + apart, 1.f}), s = second(array({apart}));
    const Array expected = concatenate({s, -s, -s, s});
    expect_equal(reshape(hessian([](Array x) { return logaddexp(x[0], x[1]); })(x), {4}), expected);
    expect_equal(reshape(hessian([](Array x) { return cumlogsumexp(x, 0)[1]; })(x), {4}), expected);
    // The third derivative, s'(d) = s (1 - 2 logistic(d)), along the first operand.
    auto along = [](Array x) { return hessian([](Array x) { return logaddexp(x[0], x[1]); })(x)[{0, 0}]; };
    expect_equal(grad(along)(x)[0], (s * (1. - 2. * logistic_of(array({apart}))))[0]);
  }
}

TEST(Jvp, OfComplexLogaddexpAtInfinities_GivesAnInfinityTheWholeSlope) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Array x = astype(array({kInfinity, kInfinity, 1.f, -kInfinity, 0.f}), complex64);
  const Array y = astype(array({1.f, kInfinity, kInfinity, -kInfinity, 0.f}), complex64);
  auto of_x = [&](const Array& x) { return logaddexp(x, y); };
  const auto [sums, slopes] = jvp(of_x, std::tuple(x), std::tuple(ones({5}, complex64)));
  EXPECT_THAT(real(sums).to_host<float>(),
              ElementsAre(kInfinity, kInfinity, kInfinity, -kInfinity, FloatNear(std::log(2.f), 1e-6f)));
  expect_equal(real(slopes), array({1.f, 0.5f, 0.f, 0.5f, 0.5f}));
  expect_equal(imag(slopes), zeros({5}));
}

TEST(Grad, OfAnInnerGradsAux_GivesTheAuxsGradient) {
  auto aux = [](Array v) {
    return value_and_grad([](Array y) {
             Array l = sum(y * y);
             return std::pair(l, 3. * l);
           })(v)
        .first.second;
  };
  const Array x = array({1.f, 2.f});
  expect_equal(grad(aux)(x), 6. * x);
  expect_equal(jit(grad(aux))(x), 6. * x);
  expect_equal(jvp(aux, std::tuple(x), std::tuple(x)).second, sum(6. * x * x));
}

TEST(Hessian, IsTheMatrixOfSecondDerivatives) {
  Array a = waves({3, 3}), x = waves({3}, 2);
  auto f = [&](const Array& x) { return sum(x * matmul(a, x)) + sum(exp(x)); };
  Array expected = a + transpose(a) + eye(3) * exp(x);
  expect_equal(hessian(f)(x), expected);
  expect_equal(jit([&](Array x) { return hessian(f)(x); })(x), expected);
  expect_equal(jacrev(jacrev(f))(x), expected);
}

TEST(Jacobian, Eigenvalues_HaveTheOuterProductsOfTheEigenvectors) {
  Array a = astype(waves({3, 3}), float64), x = a + transpose(a);
  linalg::Eigh eigh = linalg::eigh(x);
  Array expected = einsum("ik,jk->kij", {eigh.eigenvectors, eigh.eigenvectors});
  expect_equal(jacrev([](const Array& x) { return linalg::eigvalsh(x); })(x), expected, 1e-12);
  expect_equal(jacfwd([](const Array& x) { return linalg::eigvalsh(x); })(x), expected, 1e-12);
}

TEST(Derivatives, NestInAnyOrder) {
  Array x = waves({4, 3});
  auto slope = [](const Array& v) { return grad([](const Array& u) { return sum(wavy(u)); })(v); };
  expect_equal(vmap(slope)(x), wavy_slope(x));
  Array second =
      vmap([&](const Array& v) { return jvp(slope, std::tuple(v), std::tuple(ones({3}))).second; })(x);
  expect_equal(second, 2 * cos(x) - sin(x) * x);
  Array through = grad([&](const Array& x) { return sum(vmap(slope)(x)); })(x);
  expect_equal(through, second);
  expect_equal(vmap(jacfwd(wavy))(x), expand_dims(wavy_slope(x), 1) * eye(3));
}

TEST(Derivatives, FunctionsThatCannotBeDifferentiated_AreErrors) {
  EXPECT_THAT(error_of<TraceError>([] {
                jacrev([](const Array& x) { return x * 2; })(array({1, 2}));
              }),
              AllOf(HasSubstr("[jacrev] expected floating arrays"), HasSubstr("i32[2]"),
                    HasSubstr("derivatives_test.cc:")));
  EXPECT_THAT(error_of<TraceError>([] { grad([](const Array& x) { return x * 2; })(ones({2})); }),
              AllOf(HasSubstr("[grad] expected a function whose value is a floating scalar, got f32[2]"),
                    HasSubstr("derivatives_test.cc:")));
  EXPECT_THAT(error_of<TraceError>([] {
                grad([](const Array& x) { return sum(x) * 1.0; })(array({1, 2}));
              }),
              AllOf(HasSubstr("an integer cannot be differentiated"), HasSubstr("derivatives_test.cc:")));
  EXPECT_THAT(error_of<TraceError>(
                  [] { jit([](const Array& x) { return x.item<float>() > 0 ? x : -x; })(ones({})); }),
              HasSubstr("that is being traced"));
  Array leaked;
  jit([&](const Array& x) {
    leaked = x * 2;
    return x;
  })(ones({3}));
  EXPECT_THAT(error_of<TraceError>([&] { jit([&](const Array& x) { return x + leaked; })(ones({3})); }),
              AllOf(HasSubstr("it has leaked"), HasSubstr("derivatives_test.cc:")));
}

TEST(Derivatives, AWhileLoop_HasForwardDerivatives) {
  auto f = [](const Array& x) {
    return while_loop([](const Array& c) { return sum(c) < 20; }, [&](const Array& c) { return c * x; }, x);
  };
  const Array x = array({2.f, 3.f}), one = array({1.f, 1.f});  // two steps: x³
  auto [value, tangent] = jvp(f, std::tuple(x), std::tuple(one));
  EXPECT_EQ(value.to_host<float>(), (std::vector<float>{8, 27}));
  EXPECT_EQ(tangent.to_host<float>(), (std::vector<float>{12, 27}));
  auto [again, push] = linearize(f, x);
  EXPECT_EQ(again.to_host<float>(), (std::vector<float>{8, 27}));
  EXPECT_EQ(push(std::tuple(one)).to_host<float>(), (std::vector<float>{12, 27}));
  EXPECT_EQ(jacfwd(f)(x).to_host<float>(), (std::vector<float>{12, 0, 0, 27}));
}

}  // namespace
}  // namespace lockstep
