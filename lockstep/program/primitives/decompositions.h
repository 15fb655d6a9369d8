// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>

#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/sort.h"

namespace lockstep::ir {

/// More decompositions of matrices, which are the last two dimensions of f32 or f64 operands; the dimensions
/// before are batch dimensions. On CPUs LAPACK computes them if it is installed. Otherwise lu and svd are
/// composed of other primitives, geqrf and householder_product are XLA's, and the others throw Error when
/// they are lowered. The results of eig, complex_schur and sqrtm are complex.
const Primitive& lu_p();
const Primitive& svd_p();
const Primitive& eig_p();
const Primitive& schur_p();
const Primitive& complex_schur_p();
const Primitive& sqrtm_p();
const Primitive& geqrf_p();
const Primitive& householder_product_p();

struct VectorsParams {
  static constexpr std::array<std::string_view, 1> kFields = {"vectors"};
  bool vectors;
};

namespace lax {

/// l u is x, of m rows and n columns, with its rows permuted. Returns {lu, pivots, permutation}. lu has l
/// below its diagonal (l has ones on the diagonal), and u on and above it. Row i of l u is row permutation[i]
/// of x (i32[…, m]); step i exchanged rows i and pivots[i] (i32[…, min(m, n)]).
template <Operand V>
std::vector<V> lu(const V& x) {
  return apply_primitive(lu_p(), OpParams(), std::span<const V>(&x, 1));
}

/// x = u diag(s) vh: returns {u, s, vh}, with s in descending order and min(m, n) columns of u and rows of
/// vh; without `vectors`: {s}.
template <Operand V>
std::vector<V> svd(const V& x, bool vectors = true) {
  return apply_primitive(svd_p(), OpParams::of(VectorsParams{vectors}), std::span<const V>(&x, 1));
}

/// x v = v diag(w): returns {w, v}; without `vectors`: {w}. w has a derivative, v has none.
template <Operand V>
std::vector<V> eig(const V& x, bool vectors = true) {
  return apply_primitive(eig_p(), OpParams::of(VectorsParams{vectors}), std::span<const V>(&x, 1));
}

/// x = z t zᵀ: returns {t, z}, with orthonormal columns of z. t is upper triangular except for blocks of two
/// rows on its diagonal, one for each pair of conjugate eigenvalues. No derivative.
template <Operand V>
std::vector<V> schur(const V& x) {
  return apply_primitive(schur_p(), OpParams(), std::span<const V>(&x, 1));
}

/// Like schur, with a complex t, which is upper triangular.
template <Operand V>
std::vector<V> complex_schur(const V& x) {
  return apply_primitive(complex_schur_p(), OpParams(), std::span<const V>(&x, 1));
}

/// The principal square root y: y y = x. No derivative.
template <Operand V>
V sqrtm(const V& x) {
  return apply1<V>(sqrtm_p(), {x});
}

/// The steps of qr: {packed, taus}. packed has r on and above its diagonal, and below it, in column i, the
/// end of the vector v of reflection i, which is 1 - taus[i] v vᵀ; v begins with i zeros and a 1. No
/// derivative.
template <Operand V>
std::vector<V> geqrf(const V& x) {
  return apply_primitive(geqrf_p(), OpParams(), std::span<const V>(&x, 1));
}

/// The first columns, as many as `packed` has, of the product of the reflections, of which there are as many
/// as `taus` has. packed has at least as many rows as columns, and at least as many columns as there are
/// reflections. No derivative.
template <Operand V>
V householder_product(const V& packed, const V& taus) {
  return apply1<V>(householder_product_p(), {packed, taus});
}

/// The rows of each matrix in the order of `permutation`, i32[…, rows].
template <Operand V>
V permuted_rows(const V& x, const V& permutation) {
  const std::int64_t rank = x.aval().rank();
  if (num_elements(x.aval().shape) == 0) return x;
  Shape indices = permutation.aval().shape, sizes(static_cast<std::size_t>(rank), 1);
  indices.push_back(1);
  sizes.back() = x.aval().shape.back();
  std::vector<std::int64_t> batch(static_cast<std::size_t>(rank - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return gather(x, reshape(permutation, indices), {{rank - 1}, {rank - 2}, {rank - 2}, batch, batch}, sizes,
                GatherScatterMode::kPromiseInBounds);
}

/// y with a y = b (or aᵀ y = b if `transposed`), from a's decomposition lu and permutation.
template <Operand V>
V lu_solve(const V& lu, const V& permutation, const V& b, bool transposed = false) {
  if (!transposed) {
    const V y = triangular_solve(lu, permuted_rows(b, permutation), {true, true, false, true});
    return triangular_solve(lu, y, {true, false, false, false});
  }
  const V y = triangular_solve(lu, b, {true, false, true, false}),
          z = triangular_solve(lu, y, {true, true, true, true});
  const V places = iota(permutation, DType::kI32, permutation.aval().shape, permutation.aval().rank() - 1);
  const V keys[] = {permutation, places};
  return permuted_rows(z, sort(std::span<const V>(keys), permutation.aval().rank() - 1)[1]);
}

}  // namespace lax
}  // namespace lockstep::ir
