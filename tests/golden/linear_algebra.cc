// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

namespace {

/// Symmetric and positive definite.
Array definite(const Array& x) { return matmul(x, transpose(x)) + 2 * eye(3); }

}  // namespace

void add_linear_algebra(Functions& all) {
  all["matmul"] = [](const Arrays& a) { return Arrays{matmul(a[0], a[1])}; };
  all["dot"] = [](const Arrays& a) { return Arrays{dot(a[0], a[1])}; };
  all["inner"] = [](const Arrays& a) { return Arrays{inner(a[0], a[1])}; };
  all["vdot"] = [](const Arrays& a) { return Arrays{vdot(a[0], a[1])}; };
  all["outer"] = [](const Arrays& a) { return Arrays{outer(a[0], a[1])}; };
  all["kron"] = [](const Arrays& a) { return Arrays{kron(a[0], a[1])}; };
  all["tensordot(axes=1)"] = [](const Arrays& a) { return Arrays{tensordot(a[0], a[1], 1)}; };
  all["tensordot(pairs)"] = [](const Arrays& a) { return Arrays{tensordot(a[0], a[1], {2, 1}, {0, 1})}; };
  all["einsum(ij,kj->ik)"] = [](const Arrays& a) { return Arrays{einsum("ij,kj->ik", a)}; };
  all["einsum(bij,jk->bki)"] = [](const Arrays& a) { return Arrays{einsum("bij,jk->bki", a)}; };
  all["einsum(ij->j)"] = [](const Arrays& a) { return Arrays{einsum("ij->j", a)}; };
  all["einsum(...ij,...jk)"] = [](const Arrays& a) { return Arrays{einsum("...ij,...jk", a)}; };
  all["einsum(ii)"] = [](const Arrays& a) { return Arrays{einsum("ii", a)}; };
  all["einsum(ij,ij->)"] = [](const Arrays& a) { return Arrays{einsum("ij,ij->", a)}; };
  all["einsum(bii->bi)"] = [](const Arrays& a) { return Arrays{einsum("bii->bi", a)}; };
  all["einsum(ij,jk,kl->il)"] = [](const Arrays& a) { return Arrays{einsum("ij,jk,kl->il", a)}; };
  all["linalg::cholesky"] = [](const Arrays& a) { return Arrays{linalg::cholesky(definite(a[0]))}; };
  all["linalg::triangular_solve"] = [](const Arrays& a) {
    return Arrays{linalg::triangular_solve(a[0], a[1], {.left_side = true, .lower = true})};
  };
  all["linalg::solve"] = [](const Arrays& a) { return Arrays{linalg::solve(a[0], a[1])}; };
  all["linalg::inv"] = [](const Arrays& a) { return Arrays{linalg::inv(a[0])}; };
  all["linalg::det"] = [](const Arrays& a) { return Arrays{linalg::det(a[0])}; };
  all["linalg::slogdet"] = [](const Arrays& a) {
    auto [sign, size] = linalg::slogdet(a[0]);
    return Arrays{sign, size};
  };
  all["linalg::eigh(projectors)"] = [](const Arrays& a) {
    Array v = linalg::eigh(definite(a[0])).eigenvectors;
    return Arrays{square(v * abs(v))};
  };
  all["linalg::svd(u² and vh²)"] = [](const Arrays& a) {
    linalg::SVD svd = linalg::svd(a[0]);
    return Arrays{square(svd.u), square(svd.vh)};
  };
  all["linalg::qr(q² and r²)"] = [](const Arrays& a) {
    linalg::QR qr = linalg::qr(a[0]);
    return Arrays{square(qr.q), square(qr.r)};
  };
  all["linalg::matrix_rank"] = [](const Arrays& a) {
    Array first = index(a[0], 0), second = index(a[0], 1);
    return Arrays{linalg::matrix_rank(stack({first, second, first + second}))};
  };
  all["linalg::eigh(values)"] = [](const Arrays& a) { return Arrays{linalg::eigvalsh(definite(a[0]))}; };
  all["linalg::svd(values)"] = [](const Arrays& a) { return Arrays{linalg::svdvals(a[0])}; };
  all["linalg::pinv"] = [](const Arrays& a) { return Arrays{linalg::pinv(a[0])}; };
  all["linalg::matrix_power(3)"] = [](const Arrays& a) { return Arrays{linalg::matrix_power(a[0], 3)}; };
  all["linalg::norm"] = [](const Arrays& a) { return Arrays{linalg::norm(a[0])}; };
  all["linalg::norm(ord=1, axis=1)"] = [](const Arrays& a) {
    return Arrays{linalg::norm(a[0], {.ord = 1, .axis = 1})};
  };
  all["linalg::norm(ord=3, axis=0)"] = [](const Arrays& a) {
    return Arrays{linalg::norm(a[0], {.ord = 3, .axis = 0})};
  };
  all["linalg::norm(ord=inf, axis=1)"] = [](const Arrays& a) {
    return Arrays{linalg::norm(a[0], {.ord = std::numeric_limits<double>::infinity(), .axis = 1})};
  };
}

}  // namespace lockstep::golden
