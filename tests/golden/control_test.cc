// SPDX-License-Identifier: Apache-2.0
// Loops and equations with derivatives of their own, what remat keeps, and products with a dtype of their
// own, against JAX's numbers (control.py) and against each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/jit/associative_scan.h"
#include "lockstep/jit/checkpointed_while_loop.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/iterative_solvers.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/make_program.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "tests/golden/family.h"

namespace lockstep {
namespace {

using golden::compared;
using golden::expect_stored;
using golden::numbers;
using golden::Stored;
using golden::Tolerance;
using testing::error_of;
using ::testing::HasSubstr;

void expect_jaxs(const std::string& name, const Array& found, const Tolerance& tolerance = {1e-5, 1e-5}) {
  golden::expect_named(name, found, tolerance);
}

/// The value, and the derivatives of its sum times numbers by each argument.
template <class F>
void expect_derivative(const std::string& name, F function, const Array& x,
                       const Tolerance& tolerance = {1e-5, 1e-5}) {
  auto loss = [&](const Array& x) {
    const Array value = function(x);
    return std::pair(sum(astype(value, float32) * numbers(value.shape(), 9)), value);
  };
  auto [value, by_x] = jit([&](const Array& x) { return value_and_grad(loss)(x); })(x);
  expect_jaxs(name, value.second, tolerance);
  expect_jaxs(name + ": by 0", by_x, tolerance);
}
template <class F>
void expect_derivatives(const std::string& name, F function, const Array& x, const Array& y,
                        const Tolerance& tolerance = {1e-5, 1e-5}) {
  auto loss = [&](const Array& x, const Array& y) {
    const Array value = function(x, y);
    return std::pair(sum(astype(value, float32) * numbers(value.shape(), 9)), value);
  };
  auto [value, grads] =
      jit([&](const Array& x, const Array& y) { return value_and_grad<0, 1>(loss)(x, y); })(x, y);
  expect_jaxs(name, value.second, tolerance);
  expect_jaxs(name + ": by 0", std::get<0>(grads), tolerance);
  expect_jaxs(name + ": by 1", std::get<1>(grads), tolerance);
}

void expect_near(const Array& found, const Array& expected, double tolerance = 1e-5) {
  expect_stored(found, Stored(expected.dtype(), expected.shape(), golden::doubles(expected)),
                {tolerance, tolerance});
}

/// The tangent along numbers, and second derivatives, forward over reverse and reverse over forward.
template <class F>
void expect_forwards(const std::string& name, F function, const Array& x,
                     const Tolerance& tolerance = {5e-5, 5e-5}) {
  const Array along = numbers(x.shape(), 7);
  auto tangent = [=](const Array& x) { return jvp(function, std::tuple(x), std::tuple(along)).second; };
  expect_jaxs(name + ": along", tangent(x), tolerance);
  expect_jaxs(name + ": along", jit(tangent)(x), tolerance);
  auto loss = [=](const Array& x) { return sum(sin(function(x))); };
  expect_jaxs(name + ": hessian", jit([=](const Array& x) { return hessian(loss)(x); })(x), tolerance);
  auto slope = [=](const Array& x) { return jvp(loss, std::tuple(x), std::tuple(along)).second; };
  expect_jaxs(name + ": of the tangent", jit([=](const Array& x) { return grad(slope)(x); })(x), tolerance);
  // For many arguments at once.
  const Array both = vmap(tangent)(stack({x, x + 0.125}));
  expect_near(index(both, 0), tangent(x), 5e-5);
  expect_near(index(both, 1), tangent(x + 0.125), 5e-5);
}

using Two = std::pair<Array, Array>;
Two affine(const Two& first, const Two& second) {
  return {first.first * second.first, second.first * first.second + second.second};
}

TEST(AssociativeScan, GivesJaxsValuesAndDerivatives) {
  for (int n : {1, 2, 7, 8}) {
    expect_derivatives(
        "associative_scan(" + std::to_string(n) + ")",
        [](const Array& a, const Array& b) { return associative_scan(affine, Two(a, b)).second; },
        numbers({n, 3}, 1), numbers({n, 3}, 2));
  }
  expect_derivatives(
      "associative_scan(reverse)",
      [](const Array& a, const Array& b) {
        return associative_scan(affine, Two(a, b), {.reverse = true}).second;
      },
      numbers({5, 3}, 1), numbers({5, 3}, 2));
  auto sums = [](const Array& x) {
    return associative_scan([](const Array& a, const Array& b) { return a + b; }, x, {.axis = 1});
  };
  expect_derivative("associative_scan(axis=1)", sums, numbers({3, 6}, 1));
  auto products = [](const Array& x) {
    return associative_scan([](const Array& a, const Array& b) { return matmul(a, b); }, x);
  };
  expect_derivative("associative_scan(matmul)", products, numbers({5, 2, 2}, 3));
  EXPECT_EQ(products(zeros({0, 2, 2})).shape(), (Shape{0, 2, 2}));
  EXPECT_THAT(error_of<ShapeError>([] { associative_scan(affine, Two(ones({3}), ones({4}))); }),
              HasSubstr("[associative_scan] elements[1] is f32[4] and has 4 elements along axis 0, but "
                        "elements[0] has 3 (at control_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>(
                  [] { associative_scan([](const Array& a, const Array&) { return sum(a); }, ones({4})); }),
              HasSubstr("the function gives f32[] for two trees of f32[2]"));
}

TEST(Scan, Unrolled_EqualsOneStepAtATime) {
  const Array w = numbers({3, 3}, 1), xs = numbers({7, 3}, 2);
  auto run = [&](std::int64_t unroll, bool reverse) {
    auto loss = [=](const Array& w, const Array& xs) {
      auto step = [&](const Array& h, const Array& x) {
        const Array next = tanh(matmul(w, h) + x);
        return std::pair(next, std::pair(next * 2, sum(next)));
      };
      auto [last, ys] = scan(step, zeros({3}), xs, {.reverse = reverse, .unroll = unroll});
      return std::pair(sum(last) + sum(square(ys.first[{slice(), 1}])), ys);
    };
    return jit([=](const Array& w, const Array& xs) { return value_and_grad<0, 1>(loss)(w, xs); })(w, xs);
  };
  for (bool reverse : {false, true}) {
    auto [value, grads] = run(1, reverse);
    for (std::int64_t unroll : {2, 3, 7, 100}) {
      SCOPED_TRACE(unroll);
      auto [found, found_grads] = run(unroll, reverse);
      expect_near(found.first, value.first);
      expect_near(found.second.first, value.second.first);
      expect_near(found.second.second, value.second.second);
      expect_near(std::get<0>(found_grads), std::get<0>(grads));
      expect_near(std::get<1>(found_grads), std::get<1>(grads));
    }
  }
  auto count = [](const Array& x) {
    auto step = [](const Array& c, std::tuple<>) { return std::pair(c * 2, std::tuple<>()); };
    return scan(step, x, std::tuple<>(), {.length = 10, .unroll = 4}).first;
  };
  EXPECT_EQ(count(array({1.f})).item<float>(), 1024);
  EXPECT_THAT(error_of<Error>([&] {
                scan([](const Array& c, const Array& x) { return std::pair(c + x, c); }, zeros({}), ones({2}),
                     {.unroll = 0});
              }),
              HasSubstr("[scan] expected an unroll of 1 or more, got 0 (at control_test.cc:"));
}

TEST(CheckpointedWhileLoop, WithAnyNumberOfCheckpoints_HasAReverseDerivative) {
  const Array w = 1.25 + numbers({4}, 1) / 4, x = numbers({4}, 2);
  for (std::int64_t checkpoints : {1, 3, 11}) {
    auto loop = [=](const Array& w, const Array& x) {
      return checkpointed_while_loop([](const Array& c) { return sum(abs(c)) < 40; },
                                     [&](const Array& c) { return c * w + 0.5; }, x,
                                     {.max_steps = 11, .checkpoints = checkpoints});
    };
    expect_derivatives("checkpointed_while_loop", loop, w, x);
  }
  auto powers = [](const Array& x) {
    return checkpointed_while_loop([](const Array& c) { return c < 100; },
                                   [](const Array& c) { return 2 * c; }, x, {.max_steps = 50});
  };
  EXPECT_EQ(powers(full({}, 3.0)).item<float>(), 192);
  EXPECT_THAT(error_of<Error>([&] {
                checkpointed_while_loop([](const Array& c) { return c < 1; },
                                        [](const Array& c) { return c; }, zeros({}), {.max_steps = 0});
              }),
              HasSubstr("[checkpointed_while_loop] expected max_steps and checkpoints of 1 or more, got 0"));
}

Array matrix() { return numbers({4, 4}, 1) + 3 * eye(4); }
Array positive() {
  const Array root = numbers({4, 4}, 2);
  return matmul(root, transpose(root)) + 2 * eye(4);
}

/// The matrix of a linear function of vectors of four.
template <class F>
Array matrix_of(F function) {
  std::vector<Array> columns;
  for (std::int64_t i = 0; i < 4; ++i) columns.push_back(function(index(eye(4), i)));
  return stack(columns, 1);
}

TEST(CustomLinearSolve, HasTheFirstAndSecondDerivativesOfTheSolution) {
  auto by_matrix = [](const auto& function, const Array& b) { return linalg::solve(matrix_of(function), b); };
  auto solved = [=](const Array& a, const Array& b) {
    return custom_linear_solve([=](const Array& x) { return matmul(a, x); }, b, by_matrix, by_matrix);
  };
  const Array b = numbers({4}, 3);
  expect_derivatives("linear_solve", solved, matrix(), b);
  auto gradient = [=](const Array& a, const Array& b) {
    return grad([&](const Array& b) { return sum(sin(solved(a, b))); })(b);
  };
  expect_derivatives("linear_solve(second derivative)", gradient, matrix(), b, {5e-5, 5e-5});

  expect_forwards(
      "linear_solve by its matrix", [=](const Array& a) { return solved(a, b); }, matrix());
  expect_forwards(
      "linear_solve by its right side", [=](const Array& b) { return solved(matrix(), b); }, b);
  // A forward derivative needs no solver of the transposed equation.
  auto forward_only = [=](const Array& b) {
    return custom_linear_solve([](const Array& x) { return matmul(matrix(), x); }, b, by_matrix);
  };
  expect_near(jvp(forward_only, std::tuple(b), std::tuple(numbers({4}, 7))).second,
              forward_only(numbers({4}, 7)));

  // Trees, and a function that is its own transpose.
  struct Parts {
    Array x, y;
  };
  auto parts = [](const Array& scale, const Array& b) {
    auto halved = [&](const Parts& p) { return Parts{p.x * scale, p.y * 2}; };
    auto solve = [](const auto& function, const Parts& b) {
      const Parts diagonal = function(Parts{ones_like(b.x), ones_like(b.y)});
      return Parts{b.x / diagonal.x, b.y / diagonal.y};
    };
    const Parts solved = custom_linear_solve(halved, Parts{b, b}, solve, {.symmetric = true});
    return solved.x + solved.y;
  };
  auto by_scale = grad([&](const Array& scale) { return sum(parts(scale, ones({2}))); });
  EXPECT_EQ(by_scale(array({2.f, 4.f})).to_host<float>(), (std::vector<float>{-0.25f, -0.0625f}));

  auto without = [=](const Array& b) {
    return sum(custom_linear_solve([](const Array& x) { return 2 * x; }, b,
                                   [](const auto&, const Array& b) { return b / 2; }));
  };
  EXPECT_EQ(without(ones({2})).item<float>(), 1);
  EXPECT_THAT(error_of<TraceError>([&] { grad(without)(ones({2})); }),
              HasSubstr("[custom_linear_solve] has no reverse derivative without a transpose_solve (at "
                        "control_test.cc:"));
  EXPECT_THAT(
      error_of<ShapeError>(
          [&] { custom_linear_solve([](const Array& x) { return sum(x); }, ones({2}), by_matrix); }),
      HasSubstr("expected a function whose results have the types of its arguments, f32[2], got f32[]"));
}

TEST(CustomRoot, HasTheDerivativeOfTheImplicitFunction) {
  auto root = [](const Array& a) {
    auto newton = [](const auto& f, const Array& guess) {
      return fori_loop(
          0, 12,
          [&](const Array&, const Array& x) {
            return x - f(x) / grad([&](const Array& v) { return sum(f(v)); })(x);
          },
          guess);
    };
    return custom_root([=](const Array& x) { return power(x, 3) + a * x - 2; }, ones_like(a), newton,
                       [](const auto& linear, const Array& y) { return y / linear(ones_like(y)); });
  };
  expect_derivative("custom_root", root, abs(numbers({4}, 4)) + 0.5);
  expect_forwards("custom_root", root, abs(numbers({4}, 4)) + 0.5);
}

/// Other results of a solver come along with its solution, in both modes, and have no derivative.
TEST(Solvers, OtherResultsOfASolver_AreReturnedWithTheSolution) {
  struct How {
    Array steps, residual;
    std::string by;
  };
  auto newton = [](const auto& f, const Array& guess) {
    auto [x, steps] =
        while_loop([&](const std::pair<Array, Array>& at) { return max(abs(f(at.first))) > 1e-5; },
                   [&](const std::pair<Array, Array>& at) {
                     const auto& [x, n] = at;
                     return std::pair(x - f(x) / grad([&](const Array& v) { return sum(f(v)); })(x), n + 1);
                   },
                   std::pair(guess, Array(std::int32_t{0})));
    return std::pair(x, How{steps, f(x), "newton"});
  };
  auto by_one = [](const auto& linear, const Array& y) { return y / linear(ones_like(y)); };
  auto root = [&](const Array& a) {
    return custom_root([=](const Array& x) { return x * x - a; }, ones_like(a), newton, by_one);
  };
  const Array a = array({2.f, 9.f});
  const auto [x, how] = jit(root)(a);
  expect_near(x, sqrt(a));
  EXPECT_EQ(how.by, "newton");
  EXPECT_GE(how.steps.template item<int>(), 4);
  expect_near(how.residual, zeros({2}), 1e-4);
  auto first = [&](const Array& a) { return root(a).first; };
  expect_near(grad([&](const Array& a) { return sum(first(a)); })(a), 0.5 / sqrt(a));
  expect_near(jvp(first, std::tuple(a), std::tuple(ones({2}))).second, 0.5 / sqrt(a));
  auto others = [&](const Array& a) { return sum(root(a).second.residual); };
  expect_near(grad(others)(a), zeros({2}));
  expect_near(jvp(others, std::tuple(a), std::tuple(ones({2}))).second, zeros({}));

  auto counted = [](const auto& f, const Array& b) {
    return std::pair(b / f(ones_like(b)), Array(std::int32_t{1}));
  };
  auto solved = [&](const Array& scale, const Array& b) {
    return custom_linear_solve([=](const Array& x) { return scale * x; }, b, counted, counted);
  };
  const auto [y, one] = solved(array({2.f, 4.f}), ones({2}));
  expect_near(y, array({0.5f, 0.25f}));
  EXPECT_EQ(one.template item<int>(), 1);
  const auto [by_scale, by_b] = grad<0, 1>(
      [&](const Array& s, const Array& b) { return sum(solved(s, b).first); })(array({2.f, 4.f}), ones({2}));
  expect_near(by_scale, array({-0.25f, -0.0625f}));
  expect_near(by_b, array({0.5f, 0.25f}));
}

TEST(IterativeSolvers, GiveJaxsSolutionsAndDerivatives) {
  const Array b = numbers({4}, 3);
  auto by_cg = [](const Array& a, const Array& b) {
    return cg([=](const Array& x) { return matmul(a, x); }, b, {.tol = 1e-7});
  };
  auto by_gmres = [](const Array& a, const Array& b) {
    return gmres([=](const Array& x) { return matmul(a, x); }, b, {.tol = 1e-7});
  };
  const Tolerance near(2e-4, 2e-5);
  // JAX takes the derivative of cg's matrix to be of a symmetric one, as this does.
  expect_derivatives("cg", by_cg, positive(), b, near);
  expect_forwards(
      "cg", [=](const Array& b) { return by_cg(positive(), b); }, b, near);
  expect_derivatives("gmres", by_gmres, matrix(), b, near);

  // A preconditioner and a beginning change the way, not the end; restarts of few products go on.
  const Array expected = linalg::solve(positive(), b), diagonal_of = diagonal(positive());
  auto product = [](const Array& x) { return matmul(positive(), x); };
  expect_near(
      cg(product, b, {.x0 = ones({4}), .tol = 1e-7, .M = [&](const Array& r) { return r / diagonal_of; }}),
      expected, 1e-4);
  expect_near(
      gmres(product, b, {.tol = 1e-6, .restart = 2, .M = [&](const Array& r) { return r / diagonal_of; }}),
      expected, 1e-4);
  // Both equations of a tree at once.
  struct Two {
    Array x, y;
  };
  const Two both = cg(
      [&](const Two& t) {
        return Two{product(t.x), 2 * t.y};
      },
      Two{b, ones({2, 2})}, {.tol = 1e-7});
  expect_near(both.x, expected, 1e-4);
  expect_near(both.y, full({2, 2}, 0.5), 1e-5);
  expect_near(cg(product, b, {.maxiter = 0}), zeros({4}));
}

std::size_t dots_in(const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = text.find("dot_general"); at != text.npos; at = text.find("dot_general", at + 1)) ++n;
  return n;
}

TEST(Remat, EachPolicy_KeepsItsValues_AndComputesTheSame) {
  const Array w = numbers({3, 3}, 1), x = numbers({3}, 2);
  auto layer = [](const Array& w, const Array& x) {
    const Array hidden = checkpoint_name(matmul(w, x), "hidden");
    return sum(square(sin(matmul(w, sin(hidden)))));
  };
  auto gradient = [&](const RematPolicy& policy) {
    return grad([&](const Array& w) { return remat(layer, {.policy = policy})(w, x); });
  };
  const Array expected = grad([&](const Array& w) { return layer(w, x); })(w);
  namespace policies = checkpoint_policies;
  // How many products the gradient's program has: two forwards, three for the derivative by w through both,
  // and those that are computed once more.
  const std::vector<std::pair<RematPolicy, std::size_t>> all = {
      {policies::nothing_saveable(), 7},
      {policies::everything_saveable(), 5},
      {policies::dots_saveable(), 5},
      {policies::dots_with_no_batch_dims_saveable(), 5},
      {policies::save_only_these_names({"hidden"}), 6},
      {policies::save_only_these_names({"other"}), 7},
      {policies::save_any_names_but_these({"other"}), 6},
      {policies::save_anything_except_these_names({"hidden"}), 5}};
  for (const auto& [policy, dots] : all) {
    SCOPED_TRACE(policy.name);
    expect_near(jit(gradient(policy))(w), expected);
    EXPECT_EQ(dots_in(to_string(make_program(gradient(policy))(w))), dots);
  }
  // The policy holds in the body of a scan, too, and under vmap.
  auto scanned = [&](const Array& w) {
    auto step = [&](const Array& h, const Array&) {
      return std::pair(remat([](const Array& w, const Array& h) { return sin(matmul(w, h)); },
                             {.policy = policies::dots_saveable()})(w, h),
                       std::tuple<>());
    };
    return sum(scan(step, x, zeros({3})).first);
  };
  auto plain = [&](const Array& w) {
    Array h = x;
    for (int i = 0; i < 3; ++i) h = sin(matmul(w, h));
    return sum(h);
  };
  expect_near(grad(scanned)(w), grad(plain)(w));
  expect_near(vmap(grad(scanned))(stack({w, 2 * w})), vmap(grad(plain))(stack({w, 2 * w})));
  EXPECT_THAT(error_of<Error>([&] { remat(layer, {.policy = {"save_all"}})(w, x); }),
              HasSubstr("[remat] expected a policy of"));
}

TEST(MakeProgram, ShowsTheTracedProgram_AndEvalShapeTheResultsShapes) {
  struct Result {
    Array total, each;
  };
  auto f = [](const Array& x, const Array& y) { return Result{sum(x * y), astype(x, bfloat16)}; };
  const std::string text = to_string(make_program(f)(ones({3}), 2.0));
  EXPECT_THAT(text, HasSubstr("mul"));
  EXPECT_THAT(text, HasSubstr("bf16[3]"));
  EXPECT_EQ(eval_shape(f)(ones({3}), ones({3})),
            (std::vector<ShapeDtype>{{"total", {}, float32}, {"each", {3}, bfloat16}}));
  // Nothing is computed: this would not fit.
  EXPECT_EQ(eval_shape([](const Array& x) {
              return broadcast_to(x, {1 << 30, 1 << 20});
            })(ones({1}))[0]
                .shape,
            (Shape{1 << 30, 1 << 20}));
}

TEST(Products, HaveThePreferredDType_AsInJax) {
  const Array x = astype(numbers({3, 4}, 1), bfloat16) * astype(full({}, 1.0078125), bfloat16);
  const Array y = astype(numbers({4, 2}, 2), bfloat16) * astype(full({}, 1.0078125), bfloat16);
  const DotOptions wide{.preferred_element_type = float32};
  const Tolerance of_bf16(8e-3, 1e-3);
  auto product = [&](const Array& x, const Array& y) { return matmul(x, y, wide); };
  expect_derivatives("matmul(bf16 to f32)", product, x, y);
  expect_derivatives(
      "einsum(bf16 to f32)",
      [&](const Array& x, const Array& y) {
        return einsum("ij,jk,ik->k", {x, y, matmul(x, y)}, wide);
      },
      x, y, of_bf16);
  expect_jaxs("dot(i8 to i32)",
              dot(full({2, 5}, 100, int8), full({5, 3}, 90, int8), {.preferred_element_type = int32}));
  expect_derivatives(
      "conv(bf16 to f32)",
      [](const Array& x, const Array& k) {
        return nn::conv(x, k, {.padding = "SAME", .preferred_element_type = float32});
      },
      astype(numbers({1, 4, 4, 2}, 3), bfloat16), astype(numbers({2, 2, 2, 3}, 4), bfloat16), of_bf16);
  // Precision goes to the compiler.
  auto exact = [](const Array& x, const Array& y) {
    return matmul(x, y, {.precision = Precision::kHighest});
  };
  EXPECT_THAT(jit(exact).lower(ones({2, 2}), ones({2, 2})).as_text(),
              HasSubstr("#stablehlo<precision HIGHEST>"));
  expect_near(exact(ones({2, 3}), ones({3, 2})), full({2, 2}, 3.0));
  EXPECT_THAT(error_of<DTypeError>([&] { matmul(x, y, {.preferred_element_type = int32}); }),
              HasSubstr("expected a preferred_element_type that holds bf16, got i32"));
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep
