// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/linalg.h"

#include "lockstep/array/trace.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"
#include "lockstep/program/primitives/dot_general.h"

// Values and derivatives are compared with JAX's in tests/golden; here is what holds of any decomposition,
// and what is refused.
namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::floats;
using test::integers;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array tall() { return array({{1.f, 2.f, -1.f}, {0.5f, -1.f, 3.f}, {2.f, 0.25f, 1.f}, {-1.f, 1.f, 0.75f}}); }

void expect_identity(const Array& x) { expect_close(x, floats(eye(x.shape()[0])), 1e-5); }

TEST(Decompositions, TallAndWideMatrices_AreTheProductOfTheirFactors) {
  for (const Array& x : {tall(), transpose(tall())}) {
    linalg::QR qr = linalg::qr(x);
    expect_close(matmul(qr.q, qr.r), floats(x), 1e-5);
    expect_identity(matmul(transpose(qr.q), qr.q));
    linalg::SVD svd = linalg::svd(x);
    expect_close(matmul(svd.u * svd.s, svd.vh), floats(x), 1e-5);
    expect_identity(matmul(transpose(svd.u), svd.u));
    expect_identity(matmul(svd.vh, transpose(svd.vh)));
  }
  linalg::QR complete = linalg::qr(tall(), linalg::QRMode::kComplete);
  EXPECT_EQ(complete.q.shape(), (Shape{4, 4}));
  expect_identity(matmul(transpose(complete.q), complete.q));
  expect_close(matmul(complete.q, complete.r), floats(tall()), 1e-5);
}

TEST(Decompositions, TsqrOfBlocks_EqualsQrUpToSigns) {
  for (const Shape& shape : {Shape{24, 3}, Shape{2, 24, 3}}) {
    const Array x = reshape(sin(arange(num_elements(shape)) * 0.7f), shape);
    const linalg::QR whole = linalg::qr(x);
    for (std::int64_t blocks : {1, 2, 8}) {
      const linalg::QR qr = linalg::tsqr(x, blocks);
      expect_close(matmul(qr.q, qr.r), floats(x), 1e-5);
      expect_close(matmul(swapaxes(qr.q, -1, -2), qr.q), floats(broadcast_to(eye(3), qr.r.shape())), 1e-5);
      expect_close(abs(qr.r), floats(abs(whole.r)), 1e-5);
    }
  }
  for (std::int64_t blocks : {0, 3, 8}) EXPECT_THROW(linalg::tsqr(ones({16, 3}), blocks), ShapeError);
}

/// From 128 rows and columns on, LAPACK gets the matrix itself and not its transpose. Its signs are the same.
TEST(Decompositions, QrOfLargeMatrices_HasTheSignsOfSmallOnes) {
  for (const Shape& shape : {Shape{150, 130}, Shape{130, 150}, Shape{128, 128}, Shape{2, 160, 129}}) {
    for (const DType dtype : {float32, float64}) {
      const std::int64_t count = num_elements(shape), k = std::min(shape.back(), shape[shape.size() - 2]);
      const Array x = astype(reshape(sin(arange(static_cast<double>(count), float64) * 0.7), shape), dtype);
      const linalg::QR qr = linalg::qr(x);
      const double tolerance = dtype == float32 ? 2e-4 : 1e-11;
      const auto largest = [](const Array& y) { return astype(max(abs(y)), float64).item<double>(); };
      EXPECT_LT(largest(matmul(qr.q, qr.r) - x), tolerance);
      EXPECT_LT(largest(matmul(swapaxes(qr.q, -1, -2), qr.q) - eye(k, k, dtype)), tolerance);
      EXPECT_EQ(largest(tril(qr.r, -1)), 0);
      // The first columns alone have the same decomposition, which is that of a small matrix.
      const std::vector<std::int64_t> limits = [&] {
        std::vector<std::int64_t> all = shape;
        all.back() = 4;
        return all;
      }();
      const linalg::QR first = linalg::qr(slice(x, std::vector<std::int64_t>(shape.size()), limits));
      std::vector<std::int64_t> corner = limits;
      corner[corner.size() - 2] = 4;
      EXPECT_LT(largest(slice(qr.r, std::vector<std::int64_t>(shape.size()), corner) - first.r), tolerance);
    }
  }
}

TEST(Decompositions, OfALargerMatrix_TakeNoMoreOperations) {
  auto equations = [](std::int64_t n) {
    Trace trace("svd");
    const Array x = trace.input({DType::kF32, {n, n}, false, {}});
    linalg::SVD svd = linalg::svd(x);
    return trace.finish(std::vector<Array>{svd.u, svd.s, svd.vh}).equations.size();
  };
  EXPECT_EQ(equations(40), equations(4));
  EXPECT_LT(equations(4), 100u);
}

TEST(Decompositions, ARankDeficientMatrix_HasOrthonormalFactors) {
  Array x = outer(array({1.f, 2.f, -1.f}), array({0.5f, 3.f, 1.f}));
  linalg::SVD svd = linalg::svd(x);
  expect_close(matmul(svd.u * svd.s, svd.vh), floats(x), 1e-4);
  expect_identity(matmul(transpose(svd.u), svd.u));
  expect_identity(matmul(svd.vh, transpose(svd.vh)));
  EXPECT_EQ(linalg::matrix_rank(x).item<std::int32_t>(), 1);
}

TEST(Decompositions, InF64_KeepItsDigits) {
  Array x = astype(matmul(transpose(tall()), tall()), float64);
  linalg::Eigh eigh = linalg::eigh(x);
  Array again = matmul(eigh.eigenvectors * eigh.eigenvalues, transpose(eigh.eigenvectors));
  EXPECT_LT(max(abs(again - x)).item<double>(), 1e-12);
  EXPECT_LT(max(abs(matmul(linalg::inv(x), x) - eye(3, 3, float64))).item<double>(), 1e-12);
}

TEST(Decompositions, MatricesDividedIntoBlocks_AreTheProductOfTheirFactors) {
  const std::int64_t n = 150;
  Array x = reshape(sin(arange(2 * n * n) * 0.7), {2, n, n}) + 3 * eye(n);
  auto near = [&](const Array& y) { EXPECT_LT(max(abs(y - x)).item<float>(), 2e-4); };
  linalg::LU lu = linalg::lu(x);
  near(matmul(lu.p, matmul(lu.l, lu.u)));
  linalg::QR qr = linalg::qr(x);
  near(matmul(qr.q, qr.r));
  linalg::SVD svd = linalg::svd(x);
  near(matmul(svd.u * expand_dims(svd.s, -2), svd.vh));
  linalg::Schur schur = linalg::schur(x);
  near(matmul(schur.z, matmul(schur.t, swapaxes(schur.z, -1, -2))));
  linalg::Eig eig = linalg::eig(x);
  Array complex_x = astype(x, complex64);
  EXPECT_LT(
      max(abs(matmul(complex_x, eig.eigenvectors) - eig.eigenvectors * expand_dims(eig.eigenvalues, -2)))
          .item<float>(),
      2e-4);
  Array root = linalg::sqrtm(x);
  EXPECT_LT(max(abs(matmul(root, root) - complex_x)).item<float>(), 2e-4);
  Array symmetric = matmul(x, swapaxes(x, -1, -2));
  Array l = linalg::cholesky(symmetric);
  EXPECT_LT(
      max(abs(matmul(l, swapaxes(l, -1, -2)) / max(symmetric) - symmetric / max(symmetric))).item<float>(),
      1e-5);
  near(matmul(x, linalg::solve(x, x)));
  near(matmul(x, linalg::lu_solve(linalg::lu_factor(x), x)));
}

/// Many matrices are decomposed on several threads.
TEST(Decompositions, ManyMatrices_HaveTheFactorsOfEachAlone) {
  const std::int64_t count = 97, n = 20;
  const Array x = reshape(sin(arange(count * n * n) * 0.7), {count, n, n}) + 3 * eye(n);
  const Array definite = matmul(x, swapaxes(x, -1, -2));
  using Results = std::vector<Array>;
  const std::vector<std::pair<const char*, std::function<Results(const Array&, const Array&)>>> all = {
      {"cholesky", [](const Array&, const Array& d) { return Results{linalg::cholesky(d)}; }},
      {"lu",
       [](const Array& x, const Array&) {
         const linalg::LUFactor f = linalg::lu_factor(x);
         return Results{f.lu, f.pivots};
       }},
      {"solve", [](const Array& x, const Array& d) { return Results{linalg::solve(x, d)}; }},
      {"qr",
       [](const Array& x, const Array&) {
         const linalg::QR qr = linalg::qr(x);
         return Results{qr.q, qr.r};
       }},
      {"eigh",
       [](const Array&, const Array& d) {
         const linalg::Eigh e = linalg::eigh(d);
         return Results{e.eigenvalues, e.eigenvectors};
       }},
      {"svd",
       [](const Array& x, const Array&) {
         const linalg::SVD svd = linalg::svd(x);
         return Results{svd.u, svd.s, svd.vh};
       }},
      {"svdvals", [](const Array& x, const Array&) { return Results{linalg::svdvals(x)}; }},
      {"eig",
       [](const Array& x, const Array&) {
         const linalg::Eig e = linalg::eig(x);
         return Results{real(e.eigenvalues), imag(e.eigenvectors)};
       }},
      {"schur",
       [](const Array& x, const Array&) {
         const linalg::Schur schur = linalg::schur(x);
         return Results{schur.t, schur.z};
       }},
      {"sqrtm", [](const Array& x, const Array&) { return Results{real(linalg::sqrtm(x))}; }},
  };
  for (const auto& [name, decompose] : all) {
    SCOPED_TRACE(name);
    const Results together = decompose(x, definite);
    for (const std::int64_t i : {0, 1, 47, 96}) {
      const Results alone = decompose(x[{i}], definite[{i}]);
      for (std::size_t k = 0; k < alone.size(); ++k)
        EXPECT_EQ(astype(max(abs(together[k][{i}] - alone[k])), float64).item<double>(), 0) << "matrix " << i;
    }
  }
}

/// Each matrix of a batch is squared as often as its size asks for.
TEST(Expm, MatricesOfEveryMagnitude_AgreeWithTheirEigenvalues) {
  const Array turn = linalg::qr(reshape(sin(arange(16) * 0.7), {4, 4})).q;
  std::vector<Array> matrices, expected;
  for (const double size : {0., 0.1, 3., 5., 40.}) {
    const Array values = array({-1.f, -0.5f, 0.25f, 0.5f}) * size;
    matrices.push_back(matmul(turn * values, transpose(turn)));
    expected.push_back(matmul(turn * exp(values), transpose(turn)));
  }
  const Array all = linalg::expm(stack(matrices));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const Array scale = max(abs(expected[i]));
    expect_close(all[{static_cast<std::int64_t>(i)}] / scale, floats(expected[i] / scale), 2e-5);
    expect_close(linalg::expm(matrices[i]) / scale, floats(expected[i] / scale), 2e-5);
  }
  EXPECT_TRUE(lockstep::all(isnan(linalg::expm(matrices.back(), 2))).item<bool>());
}

TEST(Decompositions, EmptyMatrices_HaveFactorsOfTheRightShape) {
  for (const Shape& shape : {Shape{2, 0, 0}, Shape{0, 3, 3}, Shape{2, 0, 3}, Shape{2, 3, 0}}) {
    Array x = zeros(shape);
    EXPECT_EQ(linalg::svd(x).s.shape(), (Shape{shape[0], std::min(shape[1], shape[2])}));
    linalg::LU lu = linalg::lu(x);
    EXPECT_EQ(matmul(lu.p, matmul(lu.l, lu.u)).shape(), shape);
    EXPECT_EQ(linalg::qr(x).r.shape(), (Shape{shape[0], std::min(shape[1], shape[2]), shape[2]}));
    if (shape[1] != shape[2]) continue;
    EXPECT_EQ(linalg::det(x).shape(), Shape{shape[0]});
  }
}

TEST(Decompositions, ArgumentsThatDoNotFit_AreErrorsAtTheUsersLine) {
  EXPECT_THAT(
      error_of<ShapeError>([] { linalg::inv(tall()); }),
      AllOf(HasSubstr("[linalg::inv] expected square matrices in the last two dimensions, got f32[4,3]"),
            HasSubstr("linalg_test.cc:")));
  EXPECT_THAT(error_of<ShapeError>([] { linalg::solve(eye(3), ones({4})); }),
              HasSubstr("[linalg::solve] f32[3,3] and f32[4] do not fit"));
  EXPECT_THROW(linalg::det(zeros({2, 2}, complex64)), DTypeError);
  EXPECT_THAT(error_of<ShapeError>([] {
                linalg::lstsq(zeros({2, 4, 3}), ones({4}));
              }),
              HasSubstr("[linalg::lstsq] expected a matrix, and a vector or a matrix of as many rows"));
  EXPECT_THAT(
      error_of<ShapeError>([] {
        linalg::lu_solve({eye(3), zeros({2}, int32)}, ones({3}));
      }),
      HasSubstr("[linalg::lu_solve] expected the pivots of f32[3,3], one for each of its rows, got i32[2]"));
  EXPECT_THAT(error_of<Error>([] { linalg::lu_solve(linalg::lu_factor(eye(3)), ones({3}), 2); }),
              HasSubstr("expected trans of 0, or 1 for the transpose, got 2"));
  EXPECT_THAT(error_of<ShapeError>([] { linalg::solve_triangular(eye(3), ones({4})); }),
              HasSubstr("[linalg::solve_triangular] f32[3,3] and f32[4] do not fit"));
}

/// The results of an f64 matrix in c128, to the digits of f64.
TEST(Linalg, ComplexResultsOfF64_AreC128) {
  const Array x = astype(array({1., 2., 0., -3., 1., 0.5, 0.25, -1., 2.}, Shape{3, 3}), float64);
  const Array wide = astype(x, complex128);
  const auto far = [](const Array& a, const Array& b) { return max(abs(a - b)).item<double>(); };
  const auto [values, vectors] = linalg::eig(x);
  EXPECT_EQ(values.dtype(), complex128);
  EXPECT_EQ(vectors.dtype(), complex128);
  EXPECT_LT(far(matmul(wide, vectors), vectors * values), 1e-13);
  const auto [z, t] = [&] {
    const linalg::Schur parts = linalg::schur(x, linalg::SchurOutput::kComplex);
    return std::pair(parts.z, parts.t);
  }();
  EXPECT_EQ(t.dtype(), complex128);
  EXPECT_LT(far(matmul(matmul(z, t), conj(transpose(z))), wide), 1e-13);
  const Array root = linalg::sqrtm(x);
  EXPECT_EQ(root.dtype(), complex128);
  EXPECT_LT(far(matmul(root, root), wide), 1e-13);
}

TEST(Einsum, SubscriptsThatDoNotFit_AreAnErrorThatNamesTheLabel) {
  Array x = zeros({2, 3}), y = zeros({4, 5});
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        einsum("ij,jk->ik", {x, y});
      }),
      AllOf(HasSubstr("[einsum] \"ij,jk->ik\": label 'j' has sizes 3 and 4"), HasSubstr("linalg_test.cc:")));
  EXPECT_THAT(error_of<ShapeError>([&] { einsum("ij,jk", {x}); }), HasSubstr("expected 2 operands, got 1"));
  EXPECT_THAT(error_of<ShapeError>([&] { einsum("i->i", {x}); }), HasSubstr("operand 0 is f32[2,3]"));
  EXPECT_THAT(error_of<ShapeError>([&] { einsum("ij->k", {x}); }), HasSubstr("label 'k' of the result"));
  EXPECT_THAT(error_of<ShapeError>([&] { einsum("i1->i", {x}); }), HasSubstr("'1' is not a label"));
}

TEST(Einsum, SeveralOperands_FormTheSmallestProductFirst) {
  Trace trace("einsum");
  const Array x = trace.input({DType::kF32, {50, 50}, false, {}}),
              y = trace.input({DType::kF32, {50, 50}, false, {}}),
              z = trace.input({DType::kF32, {50, 2}, false, {}});
  const ir::Program program = trace.finish(std::vector<Array>{einsum("ij,jk,kl->il", {x, y, z})});
  const auto first = std::ranges::find_if(program.equations, [](const ir::Equation& equation) {
    return equation.primitive == &ir::dot_general_p();
  });
  ASSERT_NE(first, program.equations.end());
  EXPECT_EQ(num_elements(program.aval(first->outputs[0]).shape), 100);
}

TEST(Einsum, OperandsAsArguments_EqualTheSameOperandsInBraces) {
  const Array x = array({{1.0F, 2.0F}, {3.0F, 4.0F}}), y = array({{5.0F, 6.0F}, {7.0F, 8.0F}});
  auto expect_equal = [](const Array& a, const Array& b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_TRUE(all(equal(a, b)).item<bool>());
  };
  expect_equal(einsum("ij->ji", x), einsum("ij->ji", {x}));
  expect_equal(einsum("ij,jk->ik", x, y), einsum("ij,jk->ik", {x, y}));
  expect_equal(einsum("ij,jk,kl->il", x, y, x), einsum("ij,jk,kl->il", {x, y, x}));
  expect_equal(einsum("i,ij->j", 2.0F * x[0], y), einsum("i,ij->j", {2.0F * x[0], y}));
}

TEST(TensorDot, AxesThatDoNotFit_AreAnError) {
  EXPECT_THAT(error_of<ShapeError>([] {
                tensordot(zeros({2, 3}), zeros({4, 5}), 1);
              }),
              HasSubstr("[tensordot] axes [1] of f32[2,3] and [0] of f32[4,5] do not fit"));
}

// As JAX: the or of ands, a bool.
TEST(Products, Bools_GiveTheOrOfAnds) {
  const Array x = array({{true, false, true}, {false, false, true}}),
              y = array({{false, true}, {true, true}, {false, false}});
  const Array ones = ones_like(x);
  auto bools = [](const Array& array) {
    EXPECT_EQ(array.dtype(), bool_);
    return integers(array);
  };
  EXPECT_THAT(bools(matmul(x, y)), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(bools(dot(x, y)), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(bools(tensordot(x, y, 1)), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(bools(tensordot(x, x, 2)), ElementsAre(1));
  EXPECT_THAT(bools(inner(x, x)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(bools(vdot(x, ones)), ElementsAre(1));
  EXPECT_THAT(bools(dot(x, lockstep::ones({}, bool_))), ElementsAre(1, 0, 1, 0, 0, 1));
  EXPECT_THAT(bools(outer(array({true, false}), array({true, true}))), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(bools(einsum("ij,jk->ik", {x, y})), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(bools(einsum("ij,jk->", {x, y})), ElementsAre(1));
  EXPECT_THAT(bools(einsum("ij->i", {x})), ElementsAre(1, 1));
  EXPECT_THAT(bools(einsum("ij->j", {x})), ElementsAre(1, 0, 1));
  EXPECT_THAT(bools(einsum("ii->", {array({{false, true}, {true, false}})})), ElementsAre(0));
  EXPECT_THAT(bools(einsum("bij,bjk->bik", {expand_dims(x, 0), expand_dims(y, 0)})), ElementsAre(0, 1, 0, 0));
  // With numbers they are numbers. The count of many products does not wrap around to 0.
  EXPECT_THAT(integers(matmul(x, astype(y, int32))), ElementsAre(0, 1, 0, 0));
  const Array many = lockstep::ones({1 << 17}, bool_);
  EXPECT_THAT(bools(dot(many, many)), ElementsAre(1));
  EXPECT_THAT(error_of<DTypeError>([&] { matmul(x, y, {.preferred_element_type = float32}); }),
              HasSubstr("expected numbers"));
}

}  // namespace
}  // namespace lockstep
