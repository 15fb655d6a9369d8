// SPDX-License-Identifier: Apache-2.0
// Functions of jaxlib's that exported programs for CPUs call: LAPACK, and the search for the largest
// elements.

#include <algorithm>
#include <string>
#include <unordered_map>

#include "lockstep/base/fail.h"
#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::interop {
namespace {

using Results = std::vector<Array>;

/// LAPACK's letters, such as 'L' for the lower triangle.
char letter(const Call& call, const std::string& name) {
  const auto found = call.configured(name);
  if (!found) call.refuse(fmt::format("its configuration has no {}", name));
  return static_cast<char>(*found);
}

Array matrices_transposed(const Array& x) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < x.ndim(); ++d) order.push_back(d);
  std::swap(order.at(order.size() - 1), order.at(order.size() - 2));
  return ir::lax::transpose(x, order);
}

Array zeros_of(const Call& call, std::size_t i) {
  const Aval aval = call.result(i);
  return ir::lax::full(call.operand(0), ir::Scalar::of(0), aval.dtype, aval.shape);
}

/// LAPACK's report for each matrix, result number i: 0, or 1 where the routine failed, of which `x` has a
/// NaN.
Array report(const Call& call, std::size_t i, const Array& x) {
  std::vector<std::int64_t> axes;
  for (std::int64_t d = call.result(i).rank(); d < x.ndim(); ++d) axes.push_back(d);
  return ir::lax::convert_element_type(ir::lax::reduce_or(ir::lax::ne(x, x), axes), call.result(i).dtype);
}

Results lapack_cholesky(const Call& call) {
  const bool lower = letter(call, "uplo") == 'L';
  const Array &x = call.operand(0), l = ir::lax::cholesky(lower ? x : matrices_transposed(x));
  return {lower ? l : matrices_transposed(l), report(call, 1, l)};
}

Results lapack_lu(const Call& call) {
  const Results found = ir::lax::lu(call.operand(0));
  const Array one = ir::lax::full_like(found[1], 1);
  return {found[0], ir::lax::add(found[1], one), zeros_of(call, 2)};  // LAPACK counts rows from 1
}

Results lapack_qr(const Call& call) { return ir::lax::geqrf(call.operand(0)); }

Results lapack_q(const Call& call) {
  return {ir::lax::householder_product(call.operand(0), call.operand(1))};
}

Results lapack_eigh(const Call& call) {
  const Array& x = call.operand(0);
  const Results found = ir::lax::eigh(letter(call, "uplo") == 'L' ? x : matrices_transposed(x));
  return {found[0], found[1], report(call, 2, found[1])};
}

/// Orthonormal columns, followed by more of them, so that they are `size`.
Array completed(const Array& columns, std::int64_t size) {
  const Shape shape = columns.shape();
  const std::int64_t count = shape.back();
  if (count == size) return columns;
  const Results steps = ir::lax::geqrf(columns);
  std::vector<std::int64_t> none(shape.size(), 0), more = none, from = none;
  more.back() = size - count;
  from.back() = count;
  const Array zero = ir::lax::full(columns, ir::Scalar::of(0), columns.dtype(), {});
  const Array all = ir::lax::householder_product(ir::lax::pad(steps[0], zero, none, more, none), steps[1]);
  const Array both[] = {columns, ir::lax::slice(all, from, all.shape())};
  return ir::lax::concatenate(std::span<const Array>(both), static_cast<std::int64_t>(shape.size()) - 1);
}

/// The results are x, which LAPACK destroys, s, u, vh and its report.
Results lapack_svd(const Call& call) {
  const Array& x = call.operand(0);
  const char mode = letter(call, "mode");
  if (mode == 'N') {
    const Results found = ir::lax::svd(x, false);
    return {x, found[0], zeros_of(call, 2), zeros_of(call, 3), report(call, 4, found[0])};
  }
  if (mode != 'A' && mode != 'S') call.refuse(fmt::format("its mode is '{}'", mode));
  Results found = ir::lax::svd(x);
  if (mode == 'A') {
    found[0] = completed(found[0], x.shape()[x.shape().size() - 2]);
    found[2] = matrices_transposed(completed(matrices_transposed(found[2]), x.shape().back()));
  }
  return {x, found[1], found[0], found[2], report(call, 4, found[1])};
}

Results lapack_triangular_solve(const Call& call) {
  return {ir::lax::triangular_solve(call.operand(0), call.operand(1),
                                    {letter(call, "side") == 'L', letter(call, "uplo") == 'L',
                                     letter(call, "trans_x") != 'N', letter(call, "diag") == 'U'})};
}

Results lapack_eig(const Call& call) {
  if (letter(call, "compute_left") != 'N') call.refuse("it asks for left eigenvectors");
  const bool vectors = letter(call, "compute_right") == 'V';
  const Results found = ir::lax::eig(call.operand(0), vectors);
  return {ir::lax::real(found[0]), ir::lax::imag(found[0]), zeros_of(call, 2),
          vectors ? found[1] : zeros_of(call, 3), report(call, 4, ir::lax::real(found[0]))};
}

Results lapack_schur(const Call& call) {
  if (letter(call, "sort") != 'N') call.refuse("it sorts the eigenvalues");
  const Results found = ir::lax::schur(call.operand(0));
  const Array values = ir::lax::eig(call.operand(0), false)[0];
  return {found[0],
          found[1],
          ir::lax::real(values),
          ir::lax::imag(values),
          zeros_of(call, 4),
          report(call, 5, found[0])};
}

/// The first elements in the order of a function of the module. JAX may leave some out on devices that are
/// not exact; here all are compared.
Results approximate_top_k(const Call& call) {
  const Attribute* functions = call.operation.find("called_computations");
  if (functions == nullptr || functions->elements.size() != 1 || !call.configured("reduction_dim"))
    call.refuse("it has no function to compare by");
  const std::size_t count = call.operands.size() / 2;
  const std::int64_t dimension = *call.configured("reduction_dim");
  const Results sorted = sorted_by(call, call.module.function(functions->elements[0]->text),
                                   std::span(call.operands).subspan(0, count), dimension, true);
  return sliced(sorted, dimension, 0, call.result().shape.at(static_cast<std::size_t>(dimension)));
}

const std::unordered_map<std::string, Results (*)(const Call&)>& functions() {
  static const std::unordered_map<std::string, Results (*)(const Call&)> all = {
      {"potrf", lapack_cholesky}, {"getrf", lapack_lu},
      {"geqrf", lapack_qr},       {"orgqr", lapack_q},
      {"syevd", lapack_eigh},     {"gesdd", lapack_svd},
      {"gesvd", lapack_svd},      {"trsm", lapack_triangular_solve},
      {"geev", lapack_eig},       {"gees", lapack_schur},
  };
  return all;
}

}  // namespace

Results custom_call(const Call& call) {
  const std::string target = call.text("call_target_name");
  if (target == "ApproxTopK") return approximate_top_k(call);
  constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
  if (target.starts_with(kPrefix) && target.ends_with(kSuffix) &&
      target.size() > kPrefix.size() + kSuffix.size()) {
    const char kind = target[kPrefix.size()];
    const auto found = functions().find(
        target.substr(kPrefix.size() + 1, target.size() - kPrefix.size() - kSuffix.size() - 1));
    if (kind == 'c' || kind == 'z') {
      call.refuse(fmt::format(
          "it calls '{}' of LAPACK for complex matrices, but decompositions here are of real ones", target));
    }
    if (found != functions().end()) return found->second(call);
  }
  call.refuse(fmt::format("it calls '{}', a function of jaxlib's: export with operations that StableHLO has",
                          target));
}

}  // namespace lockstep::interop
