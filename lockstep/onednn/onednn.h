// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// oneDNN, which computes convolutions on CPUs, products of a transposed matrix, those of groups of rows, and
/// attention, for which XLA's own code takes several times as long. It is loaded when the first
/// program that could call it is compiled. Where it is not installed, XLA computes them.
namespace lockstep::onednn {

/// The target of the custom calls:
///   attribute  operation, string: "convolution" or "product"; and the fields of Convolution that are no
///              shapes, arrays of s64; the numbers of groups are one, `groups`. Or "ragged_dot",
///              "ragged_dot_transposed" or "ragged_contracting_dot", as in ir::lax::ragged_dot
///              (lockstep/program/primitives/ragged_dot.h). Or "attention" or "attention_backward", with
///              `scale`, the bits of an f64 as s64, and the window, `left` and `right`, -1 for none, as in
///              transforms::attend (lockstep/transforms/attention_programs.h)
///   operands   two arrays of f32, row-major; after them the rows' groups, s32, of the three ragged ones; of
///              attention those of attend or attend_backward, the lengths s32
///   result     one array of f32, row-major; of attention those of attend or attend_backward
/// It computes on XLA's threads. The result does not depend on their number.
inline constexpr std::string_view kOneDnnTarget = "lockstep_onednn";

/// A convolution as XLA defines it. The specs and numbers of groups are those of ir::ConvParams
/// (lockstep/program/primitives/convolution.h).
struct Convolution {
  std::vector<std::int64_t> lhs, rhs, result;  ///< shapes
  std::vector<std::int64_t> lhs_spec, rhs_spec, out_spec;
  std::vector<std::int64_t> strides, low, high, lhs_dilation, rhs_dilation;  ///< of each spatial dimension
  std::int64_t feature_groups = 1, batch_groups = 1;
};

/// Whether oneDNN is installed and has fast code for it. Loads it, once.
bool computes(const Convolution& convolution);

/// The same for the product of [n, m], transposed, and [n, k].
bool computes_product(std::int64_t m, std::int64_t n, std::int64_t k);

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler. The execution fails if oneDNN
/// cannot be loaded.
void* onednn_handler();

/// Whether oneDNN is installed. Loads it, once.
bool is_available();

/// "oneDNN 3.2.0", or why it cannot be loaded.
std::string description();

}  // namespace lockstep::onednn
