// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/program/primitives/window.h"

namespace lockstep::ir {

const Primitive& conv_general_dilated_p();

/// The meaning of the dimensions of a convolution's operands and result. The spec of lhs and the result lists
/// the batch dimension, the feature dimension and the spatial dimensions in order; that of rhs the output
/// features, the input features and the spatial dimensions.
struct ConvParams {
  static constexpr std::array<std::string_view, 12> kFields = {"window_strides",
                                                               "padding_low",
                                                               "padding_high",
                                                               "lhs_dilation",
                                                               "rhs_dilation",
                                                               "lhs_spec",
                                                               "rhs_spec",
                                                               "out_spec",
                                                               "feature_group_count",
                                                               "batch_group_count",
                                                               "preferred_element_type",
                                                               "precision"};
  std::vector<std::int64_t> window_strides, padding_low, padding_high, lhs_dilation, rhs_dilation;
  std::vector<std::int64_t> lhs_spec, rhs_spec, out_spec;
  std::int64_t feature_group_count = 1, batch_group_count = 1;
  std::optional<DType> preferred_element_type = {};  ///< of the sums and the result
  std::optional<std::string> precision = {};         ///< see lockstep/program/precision.h
};

namespace lax {

/// lhs convolved with the kernels rhs (a correlation: kernels are not reversed). Strides, padding and
/// dilations are for the spatial dimensions. With feature groups, the kernels of a group only use the input
/// features of the group; with batch groups, only a part of the batch.
template <Operand V>
V conv_general_dilated(const V& lhs, const V& rhs, ConvParams params) {
  return apply1<V>(conv_general_dilated_p(), OpParams::of(std::move(params)), {lhs, rhs});
}

}  // namespace lax
}  // namespace lockstep::ir
