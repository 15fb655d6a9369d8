// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/linalg.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/decompositions_on_gpus.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/linalg_composed.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window_text.h"

namespace lockstep::ir {
namespace {

using namespace matrices;

Value solve(const Value& a, const Value& b, bool left_side, bool lower, bool transpose_a,
            bool unit_diagonal = false) {
  return lax::triangular_solve(a, b, {left_side, lower, transpose_a, unit_diagonal});
}

/// Text of the leading rows and columns.
std::string corner(Lowering& out, const std::string& x, DType dtype, const Shape& from, const Shape& to) {
  return out.slice(x, dtype, from, Shape(to.size()), to);
}

}  // namespace

const Primitive& cholesky_p() {
  static const Primitive p = {
      .name = "cholesky",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], true);
        return {Aval{inputs[0].dtype, inputs[0].shape}};
      },
      .sharding = by_matrix,
      // Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.1.
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return {std::nullopt};
        const Value& l = c.outputs[0];
        const Value half = lax::full_like(l, 0.5);
        // Only the lower triangle is read: the tangent is that of the symmetric matrix that it represents.
        Value lower = below_diagonal(*c.tangents[0]);
        Value dx = lax::add(lax::mul(*c.tangents[0], eye(l)), lax::add(lower, transposed(lower)));
        Value inner = solve(l, solve(l, dx, false, true, true), true, true, false);
        Value phi = lax::sub(lower_part(inner), lax::mul(half, lax::mul(inner, eye(l))));
        return {product(l, phi)};
      },
      .transpose = not_linear,
      .batching = batching(cholesky_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        if (out.has_lapack()) return out.lapack_call("cholesky", e);
        const Aval& x = out.result_aval(e);
        return {triangle(out, out.op("stablehlo.cholesky", e, "lower = true"), x.dtype, x.shape, "GE")};
      },
  };
  return p;
}

const Primitive& triangular_solve_p() {
  static const Primitive p = {
      .name = "triangular_solve",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const Aval &a = inputs[0], &b = inputs[1];
        rules::same_dtypes(inputs);
        check(a, true);
        check(b, false);
        const std::size_t rank = a.shape.size();
        const bool left = params.as<TriangularSolveParams>().left_side;
        if (b.shape.size() != rank || !std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin()) ||
            b.shape[left ? rank - 2 : rank - 1] != a.shape[rank - 1]) {
          fail<ShapeError>(
              "expected the same number of matrices, and as many {} in the second as the first has columns, "
              "got {} and {}",
              left ? "rows" : "columns", to_string(a), to_string(b));
        }
        return {Aval{b.dtype, b.shape}};
      },
      .sharding =
          [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
            ShardingRule rule = by_matrix(inputs, outputs, params);
            // Each column of b (row, from the right) is solved for by itself.
            const std::size_t rank = inputs[0].shape.size(),
                              free = params.as<TriangularSolveParams>().left_side ? rank - 1 : rank - 2;
            rule.operands[1][free] = rule.results[0][free] = static_cast<int>(rule.factors.size());
            rule.factors.push_back({inputs[1].shape[free]});
            return rule;
          },
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0] && !c.tangents[1]) return {std::nullopt};
        const auto& p = c.params.as<TriangularSolveParams>();
        std::optional<Value> right = c.tangents[1];
        if (c.tangents[0]) {
          const Value& y = c.outputs[0];
          Value da = *c.tangents[0];
          da = p.lower ? lower_part(da) : lax::sub(da, below_diagonal(da));
          if (p.unit_diagonal) da = lax::sub(da, lax::mul(da, eye(da)));
          if (p.transpose_a) da = transposed(da);
          Value moved = lax::neg(p.left_side ? product(da, y) : product(y, da));
          right = right ? lax::add(*right, moved) : moved;
        }
        return {lax::triangular_solve(c.inputs[0], *right, p)};
      },
      .transpose = [](const TransposeCall& c) -> Tangents {
        TriangularSolveParams p = c.params.as<TriangularSolveParams>();
        p.transpose_a = !p.transpose_a;
        return {std::nullopt, lax::triangular_solve(*c.operands[0].value, *c.cotangents[0], p)};
      },
      .batching = batching(triangular_solve_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<TriangularSolveParams>();
        if (out.has_lapack()) {
          return out.lapack_call(
              "triangular_solve", e,
              fmt::format(", left_side = {:d} : i64, lower = {:d} : i64, transpose_a = {:d} : "
                          "i64, unit_diagonal = {:d} : i64",
                          p.left_side, p.lower, p.transpose_a, p.unit_diagonal));
        }
        return {out.op("stablehlo.triangular_solve", e,
                       fmt::format("left_side = {}, lower = {}, unit_diagonal = {}, transpose_a = "
                                   "#stablehlo<transpose {}>",
                                   p.left_side, p.lower, p.unit_diagonal,
                                   p.transpose_a ? "TRANSPOSE" : "NO_TRANSPOSE"))};
      },
  };
  return p;
}

const Primitive& qr_p() {
  static const Primitive p = {
      .name = "qr",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], false);
        const Shape& shape = inputs[0].shape;
        const std::int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
        return {Aval{inputs[0].dtype, with_matrix(shape, m, k)},
                Aval{inputs[0].dtype, with_matrix(shape, k, n)},
                Aval{inputs[0].dtype, Shape(shape.begin(), shape.end() - 2)}};
      },
      .sharding = by_matrix,
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return Tangents(3);
        const Value &q = c.outputs[0], &r = c.outputs[1];
        if (rows(c.inputs[0]) < columns(c.inputs[0])) {
          fail<TraceError>(
              "[qr] has a derivative only for matrices of at least as many rows as columns, got {} (at {}); "
              "decompose the transpose",
              to_string(c.inputs[0].aval()), CallSiteScope::current().to_string());
        }
        Value scaled = solve(r, *c.tangents[0], false, false, false);
        Value inner = product(transposed(q), scaled);
        Value below = below_diagonal(inner);
        Value turn = lax::sub(below, transposed(below));
        return {lax::add(product(q, lax::sub(turn, inner)), scaled), product(lax::sub(inner, turn), r),
                std::nullopt};
      },
      .transpose = not_linear,
      .batching = batching(qr_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        if (out.has_lapack())
          return out.lapack_call("qr", e, fmt::format(", q = {:d} : i64", out.is_used(e, 0)));
        const Aval& x = out.operand_aval(e, 0);
        const Aval &q = out.result_aval(e, 0), &r = out.result_aval(e, 1), &sign = out.result_aval(e, 2);
        Shape scales = sign.shape;
        scales.push_back(q.shape.back());
        const Aval taus = {x.dtype, scales};
        const Lowering::Names factors = composed::geqrf(out, out.operand(e, 0), x);
        const std::string columns = composed::householder_product(
            out, corner(out, factors[0], x.dtype, x.shape, q.shape), {q.dtype, q.shape}, factors[1], taus);
        const std::string top =
            triangle(out, corner(out, factors[0], x.dtype, x.shape, r.shape), x.dtype, r.shape, "LE");

        // A reflection with scale 0 is none; each other one turns the sign.
        const std::string none =
            out.compare("EQ", factors[1], out.splat(Scalar::of(0.0), x.dtype, scales), x.dtype, scales);
        const std::string kept = out.splat(Scalar::of(1.0), x.dtype, scales),
                          turned = out.splat(Scalar::of(-1.0), x.dtype, scales);
        const std::string signs = out.select(none, kept, turned, x.dtype, scales);
        const std::string all = reduced_text(out, "multiply", Scalar::of(1.0), signs, {x.dtype, scales},
                                             {static_cast<std::int64_t>(scales.size()) - 1});
        return {columns, top, all};
      },
  };
  return p;
}

const Primitive& eigh_p() {
  static const Primitive p = {
      .name = "eigh",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> {
        check(inputs[0], true);
        const Shape& shape = inputs[0].shape;
        return {Aval{inputs[0].dtype, shape}, Aval{inputs[0].dtype, Shape(shape.begin(), shape.end() - 1)}};
      },
      .sharding = by_matrix,
      .jvp = [](const JvpCall& c) -> Tangents {
        if (!c.tangents[0]) return Tangents(2);
        const Value &v = c.outputs[0], &w = c.outputs[1];
        const Shape shape = v.aval().shape;
        Value gap = lax::sub(for_columns(w, shape), for_rows(w, shape));
        Value identity = eye(v), one = lax::full_like(v, 1);
        Value f = lax::sub(lax::div(one, lax::add(identity, gap)), identity);
        Value inner = product(product(transposed(v), *c.tangents[0]), v);
        return {product(v, lax::mul(f, inner)), diagonal(inner)};
      },
      .transpose = not_linear,
      .batching = batching(eigh_p),
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        if (out.has_lapack()) return out.lapack_call("eigh", e);
        const Aval &x = out.operand_aval(e, 0), &w = out.result_aval(e, 1);
        if (on_gpus::is_used(out, x)) return on_gpus::eigh(out, out.operand(e, 0), x);
        const std::string both = out.fresh(), type = mlir_type(x);
        // Lower triangle, sorted, at most 100 sweeps of Jacobi rotations, until the elements off the diagonal
        // are this small.
        out.line(fmt::format(
            "{}:2 = \"stablehlo.custom_call\"({}) {{call_target_name = \"Eigh\", backend_config "
            "= \"1,1,100,{}\"}} : ({}) -> ({}, {})",
            both, out.operand(e, 0), x.dtype == DType::kF64 ? "1e-14" : "1e-6", type, type, mlir_type(w)));
        // The rotations stop at elements below 1e-8 of the diagonal.
        if (x.dtype != DType::kF64) return {both + "#0", both + "#1"};
        return out.inlined(composed::refined_eigh(x), {out.operand(e, 0), both + "#0", both + "#1"});
      },
  };
  return p;
}

}  // namespace lockstep::ir
