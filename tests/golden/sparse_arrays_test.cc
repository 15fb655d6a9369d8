// SPDX-License-Identifier: Apache-2.0
// Sparse arrays against what jax.experimental.sparse gives (sparse_arrays.py).

#include "lockstep/sparse/sparse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/family.h"

namespace lockstep::sparse {
namespace {

using golden::compared;
using golden::numbers;

const Shape kShape = {5, 4};

BCOO with_indices(const Array& data, std::int32_t rows_less = 0, std::int32_t columns_less = 0) {
  const Array rows = array({4, 1, 0, 1, 5, 2, 0, 4, 4, 2}), columns = array({0, 2, 1, 2, 1, 3, 4, 0, 3, 0});
  return {data, stack({rows - rows_less, columns - columns_less}, 1), kShape};
}

Array dense_of(const Array& x) { return where(abs(x) > 0.4, x, 0).at(3).set(0); }

void expect_jaxs(const std::string& name, const Array& x) { golden::expect_named(name, x, {1e-5, 1e-6}); }

/// The parts of complex numbers are two arrays.
void expect_both(const std::string& name, const Array& x) {
  if (!is_complex(x.dtype())) return expect_jaxs(name, x);
  expect_jaxs(name + ", real", real(x));
  expect_jaxs(name + ", imag", imag(x));
}

struct Numbers {
  DType dtype;
  Array operator()(const Shape& shape, int seed) const {
    const Array x = numbers(shape, seed);
    return dtype == complex64 ? x * array({std::complex<float>(1, 0.5f)})[0] : x.astype(dtype);
  }
};

template <class M>
void expect_products(const std::string& of, const std::string& kind, const M& a, const Numbers& given) {
  const Array x = given({4}, 2), y = given({5}, 3), right = given({4, 3}, 4), left = given({3, 5}, 5);
  expect_both(of + kind + " @ vector", matmul(a, x));
  expect_both(of + kind + " @ matrix", matmul(a, right));
  expect_both(of + "vector @ " + kind, matmul(y, a));
  expect_both(of + "matrix @ " + kind, matmul(left, a));
  expect_both(of + "transposed " + kind + " @ vector", matmul(a.T(), y));

  auto loss = [](const M& a, const Array& x) { return sum(square(abs(matmul(a, x) + 1))); };
  auto loss_left = [](const M& a, const Array& y) { return sum(square(abs(matmul(y, a) + 1))); };
  expect_both(of + "grad by " + kind, sparse::grad(loss)(a, x).data);
  expect_both(of + "grad by " + kind + ", of a matrix", sparse::grad(loss)(a, right).data);
  expect_both(of + "grad by the vector of " + kind, lockstep::grad<1>(loss)(a, x));
  expect_both(of + "grad by " + kind + " at the right", sparse::grad(loss_left)(a, y).data);
  expect_both(of + "grad by the vector left of " + kind, lockstep::grad<1>(loss_left)(a, y));
  auto product = [&](const Array& data, const Array& x) { return matmul(a.with_values(data), x); };
  expect_both(of + "jvp of " + kind,
              jvp(product, std::tuple(a.data, x), std::tuple(2 * a.data, x + 1)).second);
  if (given.dtype != float32) return;
  auto cube = [&](const Array& x) { return sum(power(matmul(a, x), 3)); };
  expect_jaxs("hessian by the vector of " + kind, jacfwd(lockstep::grad(cube))(x));
}

void expect_all(const std::string& name, DType dtype) {
  const std::string of = name + ": ";
  const Numbers given{dtype};
  const BCOO m = with_indices(given({10}, 1));
  const Array dense = dense_of(given(kShape, 6));
  const BCSR r = BCSR::fromdense(dense);
  expect_both(of + "todense", m.todense());
  expect_both(of + "sum_duplicates", m.sum_duplicates().data);
  expect_both(of + "fromdense", BCOO::fromdense(dense).data);
  expect_both(of + "BCSR.fromdense", r.data);
  expect_products(of, "BCOO", m, given);
  expect_products(of, "BCSR", r, given);
}

TEST(Sparse, OfF32_EqualsJaxs) { expect_all("float32", float32); }
TEST(Sparse, OfF64_EqualsJaxs) { expect_all("float64", float64); }
TEST(Sparse, OfC64_EqualsJaxs) { expect_all("complex64", complex64); }

TEST(SparseIndices, EqualJaxs) {
  const Array data = numbers({10}, 1), dense = dense_of(numbers(kShape, 6));
  const BCOO m = with_indices(data);
  expect_jaxs("indices of sum_duplicates", m.sum_duplicates().indices);
  expect_jaxs("indices of sum_duplicates(nse=9)", m.sum_duplicates(9).indices);
  expect_jaxs("indices of fromdense", BCOO::fromdense(dense).indices);
  expect_jaxs("indices of fromdense(nse=16)", BCOO::fromdense(dense, 16).indices);
  expect_jaxs("data of fromdense(nse=16)", BCOO::fromdense(dense, 16).data);
  expect_jaxs("indices of fromdense(nse=3)", BCOO::fromdense(dense, 3).indices);
  expect_jaxs("indices of the transpose", BCOO::fromdense(dense).T().indices);
  const Array some = numbers({2, 3, 4}, 2), cube = where(some > 0, some, 0);
  expect_jaxs("indices of fromdense of a cube", BCOO::fromdense(cube).indices);
  expect_jaxs("a cube transposed", BCOO::fromdense(cube).transpose({2, 0, 1}).todense());
  const BCSR r = BCSR::fromdense(dense);
  expect_jaxs("columns of BCSR", r.indices);
  expect_jaxs("indptr of BCSR", r.indptr);
}

TEST(SparseEdges, EqualJaxs) {
  const Array data = numbers({10}, 1), dense = dense_of(numbers(kShape, 6));
  const BCOO lacking = BCOO::fromdense(dense.at({slice(), 2}).set(0));
  const Array x = numbers({4}, 2).at(2).set(NAN);
  expect_jaxs("NaN times absent elements, BCOO", matmul(lacking, x));
  expect_jaxs("NaN times absent elements, BCSR", matmul(BCSR::from_bcoo(lacking), x));
  expect_jaxs("NaN times present elements", matmul(BCOO::fromdense(dense), x));
  const BCOO none = BCOO::fromdense(zeros(kShape));
  EXPECT_EQ(none.nse(), 0);
  expect_jaxs("no elements, todense", none.todense());
  expect_jaxs("no elements @ vector", matmul(none, x));
  const BCOO negative = with_indices(data, 5, 4);
  expect_jaxs("negative indices, todense", negative.todense());
  expect_jaxs("negative indices @ vector", matmul(negative, numbers({4}, 2)));
  expect_jaxs("NaN out of bounds @ vector", matmul(with_indices(data.at(4).set(NAN)), numbers({4}, 2)));
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep::sparse
