// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

Arrays squares(const linalg::SVD& svd) { return {square(svd.u), square(svd.s), square(svd.vh)}; }

Arrays parts_of(const linalg::LU& lu) { return {lu.p, lu.l, lu.u}; }

}  // namespace

void add_decompositions(Functions& all) {
  for (const char* name : {"matrices", "tall_matrices", "wide_matrices"}) {
    all["linalg::lu(" + std::string(name) + ")"] = [](const Arrays& a) { return parts_of(linalg::lu(a[0])); };
  }
  all["linalg::lu_factor"] = [](const Arrays& a) {
    linalg::LUFactor factor = linalg::lu_factor(a[0]);
    return Arrays{factor.lu, factor.pivots};
  };
  all["linalg::lu_solve"] = [](const Arrays& a) {
    return Arrays{linalg::lu_solve(linalg::lu_factor(a[0]), a[1])};
  };
  all["linalg::lu_solve(trans=1)"] = [](const Arrays& a) {
    return Arrays{linalg::lu_solve(linalg::lu_factor(a[0]), a[1], 1)};
  };
  all["linalg::solve_triangular"] = [](const Arrays& a) {
    return Arrays{linalg::solve_triangular(a[0], a[1])};
  };
  all["linalg::solve_triangular(lower, trans)"] = [](const Arrays& a) {
    return Arrays{linalg::solve_triangular(a[0], a[1], {.lower = true, .trans = true})};
  };
  for (const char* name : {"larger", "singular"}) {
    all["linalg::det(" + std::string(name) + ")"] = [](const Arrays& a) { return Arrays{linalg::det(a[0])}; };
  }
  all["linalg::slogdet(larger)"] = [](const Arrays& a) {
    auto [sign, size] = linalg::slogdet(a[0]);
    return Arrays{sign, size};
  };
  all["linalg::eigvals(abs)"] = [](const Arrays& a) { return Arrays{abs(linalg::eigvals(a[0]))}; };
  all["linalg::eig(abs)"] = [](const Arrays& a) {
    linalg::Eig eig = linalg::eig(a[0]);
    return Arrays{abs(eig.eigenvalues), abs(eig.eigenvectors)};
  };
  all["linalg::schur(abs)"] = [](const Arrays& a) {
    linalg::Schur schur = linalg::schur(a[0]);
    return Arrays{abs(schur.t), abs(schur.z)};
  };
  all["linalg::schur(complex, abs)"] = [](const Arrays& a) {
    linalg::Schur schur = linalg::schur(a[0], linalg::SchurOutput::kComplex);
    return Arrays{abs(schur.t), abs(schur.z)};
  };
  all["linalg::sqrtm(real and imag)"] = [](const Arrays& a) {
    Array root = linalg::sqrtm(a[0]);
    return Arrays{real(root), imag(root)};
  };
  all["linalg::expm"] = [](const Arrays& a) { return Arrays{linalg::expm(a[0])}; };
  all["linalg::expm(large)"] = [](const Arrays& a) { return Arrays{linalg::expm(8 * a[0])}; };
  all["linalg::lstsq"] = [](const Arrays& a) {
    linalg::LeastSquares found = linalg::lstsq(a[0], a[1]);
    return Arrays{found.x, found.residuals, found.s};
  };
  all["linalg::lstsq(rank)"] = [](const Arrays& a) { return Arrays{linalg::lstsq(a[0], a[1]).rank}; };
  for (const char* name : {"rank 3", "batch"}) {
    all["linalg::pinv(" + std::string(name) + ")"] = [](const Arrays& a) {
      return Arrays{linalg::pinv(a[0])};
    };
  }
  for (const char* name : {"batch", "wide"}) {
    all["linalg::svd(" + std::string(name) + ")"] = [](const Arrays& a) {
      return squares(linalg::svd(a[0]));
    };
  }
}

}  // namespace lockstep::golden
