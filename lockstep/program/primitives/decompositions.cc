// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/decompositions.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/decompositions_on_gpus.h"
#include "lockstep/program/primitives/linalg_composed.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace {

using namespace matrices;

Shape vector_shape(const Aval& x) { return Shape(x.shape.begin(), x.shape.end() - 1); }

/// The tangents of an operation without a derivative.
JvpRule no_derivative(std::string_view what, std::string_view instead) {
  return [what, instead](const JvpCall& c) -> Tangents {
    if (std::ranges::none_of(c.tangents, [](const auto& t) { return t.has_value(); }))
      return Tangents(c.outputs.size());
    fail<TraceError>("[linalg::{}] has no derivative (at {}); {}", what, CallSiteScope::current().to_string(),
                     instead);
  };
}

std::string vectors_of(const OpParams& params) {
  return fmt::format(", vectors = {:d} : i64", params.as<VectorsParams>().vectors);
}

/// Square x, padded to `size` rows and columns with those of the identity.
Value extended(const Value& x, std::int64_t size) {
  const std::int64_t rank = x.aval().rank();
  std::vector<std::int64_t> none(static_cast<std::size_t>(rank), 0), high = none;
  high[static_cast<std::size_t>(rank - 2)] = size - rows(x);
  high.back() = size - columns(x);
  const Value zero = lax::full(x, Scalar::of(0.0), x.aval().dtype, {});
  return lax::pad(x, zero, none, high, none);
}

/// De Hoog, Anderssen, Lukas, "Differentiation of matrix functionals using triangular factorization" (2011).
Value lu_tangent(const Value& lu, const Value& permutation, const Value& dx) {
  const std::int64_t m = rows(lu), n = columns(lu), k = std::min(m, n);
  Value l = extended(below_diagonal(part(lu, 0, m, 0, k)), m);
  l = lax::add(l, eye(l));
  Value u = extended(upper_part(part(lu, 0, k, 0, n)), n);
  if (k < n) {
    // Ones where u has no rows.
    const Value more = lax::full(lu, Scalar::of(1.0), lu.aval().dtype, with_matrix(lu.aval().shape, n, n));
    const Value first = extended(part(more, 0, k, 0, k), n);
    u = lax::add(u, lax::mul(eye(u), lax::sub(more, first)));
  }
  const Value left = lax::triangular_solve(l, lax::permuted_rows(dx, permutation), {true, true, false, true});
  const Value both = lax::triangular_solve(u, left, {false, false, false, false});
  return lax::add(product(l, below_diagonal(both)), product(upper_part(both), u));
}

/// Tangents of the singular values, and, with `vectors`, of u and vh: Townsend, "Differentiating the singular
/// value decomposition" (2016).
Tangents svd_tangents(const Value& x, const Value& dx, const Value& u, const Value& s, const Value& vh,
                      bool vectors) {
  const Value ut = transposed(u), v = transposed(vh), ds = product(product(ut, dx), v);
  if (!vectors) return {diagonal(ds)};
  const Shape square = ds.aval().shape;
  const Value columns = for_columns(s, square), rows = for_rows(s, square), identity = eye(ds);
  const Value differences = lax::mul(lax::add(columns, rows), lax::sub(columns, rows));
  const Value f = lax::sub(lax::div(lax::full_like(ds, 1), lax::add(differences, identity)), identity);
  const Value dss = lax::mul(columns, ds), sds = lax::mul(rows, ds);
  const Value zeros = lax::convert_element_type(lax::eq(s, lax::full_like(s, 0)), s.aval().dtype);
  const Value inverse = lax::sub(lax::div(lax::full_like(s, 1), lax::add(s, zeros)), zeros);
  const Value turn = lax::mul(lax::mul(lax::sub(ds, transposed(ds)), lax::full_like(ds, 0.5)),
                              lax::mul(for_columns(inverse, square), identity));
  Value du = product(u, lax::add(lax::mul(f, lax::add(dss, transposed(dss))), turn));
  Value dv = product(v, lax::mul(f, lax::add(sds, transposed(sds))));
  const std::int64_t m = matrices::rows(x), n = matrices::columns(x);
  if (m > n) {
    const Value moved = product(dx, v);
    du = lax::add(du,
                  lax::div(lax::sub(moved, product(u, product(ut, moved))), for_columns(s, du.aval().shape)));
  }
  if (n > m) {
    const Value moved = product(transposed(dx), u);
    dv = lax::add(dv,
                  lax::div(lax::sub(moved, product(v, product(vh, moved))), for_columns(s, dv.aval().shape)));
  }
  return {du, diagonal(ds), transposed(dv)};
}

/// The tangent of the eigenvalues: the diagonal of v⁻¹ dx v. The system of complex numbers is solved as one
/// of twice the size.
Value eigenvalue_tangent(const Value& v, const Value& dx) {
  const Value real = lax::real(v), imag = lax::imag(v);
  const std::int64_t n = rows(dx), rank = dx.aval().rank();
  const auto joined = [](const Value& a, const Value& b, std::int64_t dimension) {
    const Value both[] = {a, b};
    return lax::concatenate(std::span<const Value>(both), dimension);
  };
  const Value system = joined(joined(real, lax::neg(imag), rank - 1), joined(imag, real, rank - 1), rank - 2);
  const std::vector<Value> parts = lax::lu(system);
  const Value y = lax::lu_solve(parts[0], parts[2], joined(dx, lax::full_like(dx, 0), rank - 2));
  const Value y_real = part(y, 0, n, 0, n), y_imag = part(y, n, 2 * n, 0, n);
  const Value v_real = transposed(real), v_imag = transposed(imag);
  const auto sum = [&](const Value& x) { return lax::reduce_sum(x, {rank - 1}); };
  return lax::complex(sum(lax::sub(lax::mul(y_real, v_real), lax::mul(y_imag, v_imag))),
                      sum(lax::add(lax::mul(y_real, v_imag), lax::mul(y_imag, v_real))));
}

/// A decomposition that only LAPACK computes.
Primitive by_lapack_only(std::string name, const Primitive& (*self)(), JvpRule jvp,
                         std::function<std::vector<Aval>(std::span<const Aval>, const OpParams&)> shape,
                         std::function<std::string(const OpParams&)> config) {
  return {.name = name,
          .shape = std::move(shape),
          .sharding = by_matrix,
          .jvp = std::move(jvp),
          .transpose = not_linear,
          .batching = batching(self),
          .flops = flops_of_results,
          .zero_padding = ZeroPadding::kCounts,
          .exchange = no_exchange,
          .lower = [name, config](Lowering& out, const Equation& e) -> std::vector<std::string> {
            if (!out.has_lapack_of_host()) {
              CallSiteScope here(e.site);
              fail_without_lapack(name, out.for_cpu() || out.for_cuda());
            }
            return out.lapack_call(name, e, config(e.params));
          }};
}

std::string no_config(const OpParams&) { return ""; }

}  // namespace

const Primitive& lu_p() {
  static const Primitive p = {
      .name = "lu",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], false);
        Shape pivots = batch_of(inputs[0].shape), permutation = pivots;
        const std::int64_t m = inputs[0].shape[pivots.size()], n = inputs[0].shape.back();
        pivots.push_back(std::min(m, n));
        permutation.push_back(m);
        return {Aval{inputs[0].dtype, inputs[0].shape}, Aval{DType::kI32, pivots},
                Aval{DType::kI32, permutation}};
      },
      .sharding = by_matrix,
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return Tangents(3);
        return {lu_tangent(c.outputs[0], c.outputs[2], *c.tangents[0]), std::nullopt, std::nullopt};
      },
      .transpose = not_linear,
      .batching = batching(lu_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        if (out.has_lapack()) return out.lapack_call("lu", e);
        if (on_gpus::is_used(out, out.operand_aval(e, 0)))
          return on_gpus::lu(out, out.operand(e, 0), out.operand_aval(e, 0));
        return composed::lu(out, out.operand(e, 0), out.operand_aval(e, 0));
      },
  };
  return p;
}

const Primitive& svd_p() {
  static const Primitive p = {
      .name = "svd",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        check(inputs[0], false);
        const Aval& x = inputs[0];
        Shape values = batch_of(x.shape);
        const std::int64_t m = x.shape[values.size()], n = x.shape.back(), k = std::min(m, n);
        values.push_back(k);
        if (!params.as<VectorsParams>().vectors) return {Aval{x.dtype, values}};
        return {Aval{x.dtype, with_matrix(x.shape, m, k)}, Aval{x.dtype, values},
                Aval{x.dtype, with_matrix(x.shape, k, n)}};
      },
      .sharding = by_matrix,
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return Tangents(c.outputs.size());
        const bool vectors = c.params.as<VectorsParams>().vectors;
        const std::vector<Value> all =
            vectors ? std::vector<Value>(c.outputs.begin(), c.outputs.end()) : lax::svd(c.inputs[0]);
        return svd_tangents(c.inputs[0], *c.tangents[0], all[0], all[1], all[2], vectors);
      },
      .transpose = not_linear,
      .batching = batching(svd_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        if (out.has_lapack()) return out.lapack_call("svd", e, vectors_of(e.params));
        const bool vectors = e.params.as<VectorsParams>().vectors;
        if (on_gpus::is_used(out, out.operand_aval(e, 0)))
          return on_gpus::svd(out, out.operand(e, 0), out.operand_aval(e, 0), vectors);
        return out.inlined(composed::svd(out.operand_aval(e, 0), vectors), {out.operand(e, 0)});
      },
  };
  return p;
}

const Primitive& eig_p() {
  static const Primitive p = by_lapack_only(
      "eig", eig_p,
      [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return Tangents(c.outputs.size());
        if (c.params.as<VectorsParams>().vectors) {
          fail<TraceError>(
              "[linalg::eig] the eigenvectors have no derivative (at {}); differentiate those of a symmetric "
              "matrix (linalg::eigh), or the eigenvalues (linalg::eigvals)",
              CallSiteScope::current().to_string());
        }
        return {eigenvalue_tangent(lax::eig(c.inputs[0])[1], *c.tangents[0])};
      },
      [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        check(inputs[0], true);
        std::vector<Aval> all = {Aval{complex_dtype(inputs[0].dtype), vector_shape(inputs[0])}};
        if (params.as<VectorsParams>().vectors)
          all.push_back(Aval{complex_dtype(inputs[0].dtype), inputs[0].shape});
        return all;
      },
      vectors_of);
  return p;
}

const Primitive& schur_p() {
  static const Primitive p = by_lapack_only(
      "schur", schur_p, no_derivative("schur", "differentiate the eigenvalues (linalg::eigvals)"),
      [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], true);
        const Aval matrix = {inputs[0].dtype, inputs[0].shape};
        return {matrix, matrix};
      },
      no_config);
  return p;
}

const Primitive& complex_schur_p() {
  static const Primitive p = by_lapack_only(
      "complex_schur", complex_schur_p,
      no_derivative("schur", "differentiate the eigenvalues (linalg::eigvals)"),
      [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], true);
        const Aval matrix = {complex_dtype(inputs[0].dtype), inputs[0].shape};
        return {matrix, matrix};
      },
      no_config);
  return p;
}

const Primitive& sqrtm_p() {
  static const Primitive p = by_lapack_only(
      "sqrtm", sqrtm_p,
      no_derivative("sqrtm", "of a symmetric matrix, take the root of its eigenvalues (linalg::eigh)"),
      [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], true);
        return {Aval{complex_dtype(inputs[0].dtype), inputs[0].shape}};
      },
      no_config);
  return p;
}

const Primitive& geqrf_p() {
  static const Primitive p = [] {
    Primitive p = by_lapack_only(
        "geqrf", geqrf_p, no_derivative("geqrf", "differentiate q and r (linalg::qr)"),
        [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
          check(inputs[0], false);
          const Aval& x = inputs[0];
          Shape taus = batch_of(x.shape);
          taus.push_back(std::min(x.shape[taus.size()], x.shape.back()));
          return {Aval{x.dtype, x.shape}, Aval{x.dtype, taus}};
        },
        no_config);
    p.lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
      if (out.has_lapack()) return out.lapack_call("geqrf", e);
      return composed::geqrf(out, out.operand(e, 0), out.operand_aval(e, 0));
    };
    return p;
  }();
  return p;
}

const Primitive& householder_product_p() {
  static const Primitive p = [] {
    Primitive p = by_lapack_only(
        "householder_product", householder_product_p,
        no_derivative("householder_product", "differentiate q (linalg::qr)"),
        [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
          rules::same_dtypes(inputs);
          check(inputs[0], false);
          const Shape &x = inputs[0].shape, &taus = inputs[1].shape;
          const std::int64_t m = x[x.size() - 2], n = x.back();
          if (m < n || taus.size() + 1 != x.size() || taus.back() > n ||
              !std::equal(taus.begin(), taus.end() - 1, x.begin())) {
            fail<ShapeError>(
                "expected matrices of at least as many rows as columns, and for each of them at most as many "
                "taus as columns, got {} and {}",
                to_string(inputs[0]), to_string(inputs[1]));
          }
          return {Aval{inputs[0].dtype, x}};
        },
        no_config);
    p.lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
      if (out.has_lapack()) return out.lapack_call("householder_product", e);
      return {composed::householder_product(out, out.operand(e, 0), out.operand_aval(e, 0), out.operand(e, 1),
                                            out.operand_aval(e, 1))};
    };
    return p;
  }();
  return p;
}

}  // namespace lockstep::ir
