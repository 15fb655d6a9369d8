// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& dot_general_p();

struct DotGeneralParams {
  static constexpr std::array<std::string_view, 6> kFields = {
      "lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch", "preferred_element_type", "precision"};
  std::vector<std::int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred_element_type = {};  ///< of the sums and the result
  std::optional<std::string> precision = {};         ///< see lockstep/program/precision.h
};

namespace lax {

/// Sums of products over the contracting dimensions, for each index of the batch dimensions. The result's
/// dimensions are the batch dimensions, then the remaining ones of lhs, then those of rhs.
template <Operand V>
V dot_general(const V& lhs, const V& rhs, DotGeneralParams dimensions) {
  return apply1<V>(dot_general_p(), OpParams::of(std::move(dimensions)), {lhs, rhs});
}

}  // namespace lax
}  // namespace lockstep::ir
