// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& ragged_dot_p();
const Primitive& ragged_contracting_dot_p();

struct RaggedDotParams {
  static constexpr std::array<std::string_view, 1> kFields = {"rhs_is_transposed"};
  bool rhs_is_transposed;
};

struct RaggedContractingDotParams {
  static constexpr std::array<std::string_view, 1> kFields = {"groups"};
  std::int64_t groups;
};

namespace lax {

/// Each row of x, [m, k], times the matrix of its group: of y, [groups, k, n], or [groups, n, k] if it
/// `is_transposed`. `group`, i32[m], has each row's number; the result of a row with another number than 0 to
/// groups - 1 is 0. On CPUs oneDNN multiplies the rows of each group at once, without copies if they stand
/// together; elsewhere, and without it, every row is multiplied by every matrix.
template <Operand V>
V ragged_dot(const V& x, const V& y, const V& group, bool is_transposed = false) {
  return apply1<V>(ragged_dot_p(), OpParams::of(RaggedDotParams{is_transposed}), {x, y, group});
}

/// The sum over the rows of each group of the products of a row of x, [m, k], and that of y, [m, n]: [groups,
/// k, n].
template <Operand V>
V ragged_contracting_dot(const V& x, const V& y, const V& group, std::int64_t groups) {
  return apply1<V>(ragged_contracting_dot_p(), OpParams::of(RaggedContractingDotParams{groups}),
                   {x, y, group});
}

}  // namespace lax
}  // namespace lockstep::ir
