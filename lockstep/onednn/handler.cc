// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/onednn/computations.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::onednn {
namespace {

const XLA_FFI_Buffer& buffer(void* argument) { return *static_cast<const XLA_FFI_Buffer*>(argument); }

std::vector<std::int64_t> shape_of(const XLA_FFI_Buffer& buffer) {
  return {buffer.dims, buffer.dims + buffer.rank};
}

void ragged(std::string_view operation, const XLA_FFI_CallFrame& frame, const ForEach& for_each) {
  const XLA_FFI_Buffer &x = buffer(frame.args.args[0]), &y = buffer(frame.args.args[1]),
                       &result = buffer(frame.rets.rets[0]);
  const bool contracting = operation == "ragged_contracting_dot";
  const Ragged operands = {.rows = x.dims[0],
                           .k = x.dims[1],
                           .n = result.dims[result.rank - 1],
                           .groups = contracting ? result.dims[0] : y.dims[0],
                           .x = static_cast<const float*>(x.data),
                           .y = static_cast<const float*>(y.data),
                           .group = static_cast<const std::int32_t*>(buffer(frame.args.args[2]).data)};
  auto* out = static_cast<float*>(result.data);
  if (contracting) return ragged_contracting_dot(operands, out, for_each);
  ragged_dot(operands, operation == "ragged_dot_transposed", out, for_each);
}

void attention(std::string_view operation, const XLA_FFI_CallFrame& frame, const ForEach& for_each) {
  const auto operand = [&](std::int64_t i) {
    return static_cast<const float*>(buffer(frame.args.args[i]).data);
  };
  const auto result = [&](int i) { return static_cast<float*>(buffer(frame.rets.rets[i]).data); };
  const XLA_FFI_Buffer &query = buffer(frame.args.args[0]), &key = buffer(frame.args.args[1]);
  const Attention a = {
      .batch = query.dims[0],
      .queries = query.dims[1],
      .keys = key.dims[1],
      .heads = query.dims[2],
      .key_heads = key.dims[2],
      .features = query.dims[3],
      .scale = static_cast<float>(std::bit_cast<double>(collectives::ffi_number(frame, "scale"))),
      .left = collectives::ffi_number(frame, "left"),
      .right = collectives::ffi_number(frame, "right")};
  const bool backward = operation == "attention_backward";
  AttentionOperands operands = {operand(0), operand(1), operand(2)};
  const XLA_FFI_Buffer* bias = nullptr;
  const std::int64_t others = frame.args.size - (backward ? 3 : 0);
  for (std::int64_t i = 3; i < others; ++i) {
    const XLA_FFI_Buffer& x = buffer(frame.args.args[i]);
    if (x.dtype == XLA_FFI_DataType_S32) {
      operands.lengths = static_cast<const std::int32_t*>(x.data);
    } else if (x.dtype == XLA_FFI_DataType_PRED) {
      operands.mask = {static_cast<const bool*>(x.data), x.dims};
    } else {
      operands.bias = {operand(i), x.dims};
      bias = &x;
    }
  }
  if (!backward) return attend(a, operands, result(0), result(1), for_each);
  Terms<float> of_bias;
  if (frame.rets.size == 4) of_bias = {result(3), bias->dims};
  attend_backward(a, {operands, operand(others), operand(others + 1)}, operand(others + 2), result(0),
                  result(1), result(2), of_bias, for_each);
}

void execute(const XLA_FFI_CallFrame& frame) {
  if (!is_available()) {
    fail(
        "a compiled program calls oneDNN, which cannot be loaded here: {}. Install it on every host or on "
        "none "
        "(scripts/setup, or the Debian package lockstep-onednn)",
        description());
  }
  const XLA_FFI_Buffer &lhs = buffer(frame.args.args[0]), &rhs = buffer(frame.args.args[1]),
                       &result = buffer(frame.rets.rets[0]);
  const auto *x = static_cast<const float*>(lhs.data), *y = static_cast<const float*>(rhs.data);
  auto* z = static_cast<float*>(result.data);
  const ForEach for_each = collectives::for_each_of(frame);
  const std::string_view operation = collectives::ffi_text(frame, "operation");
  if (operation == "product") {
    const std::int64_t m = lhs.dims[1], n = lhs.dims[0], k = rhs.dims[1];
    return multiply(m, n, k, x, y, z, for_each, form_of_product(m, n, k));
  }
  if (operation.starts_with("attention")) return attention(operation, frame, for_each);
  if (operation.starts_with("ragged")) return ragged(operation, frame, for_each);
  if (operation != "convolution")
    fail("a custom call asks for {} of oneDNN, which Lockstep does not call", operation);
  const auto numbers = [&frame](std::string_view name) { return collectives::ffi_numbers(frame, name); };
  convolve({.lhs = shape_of(lhs),
            .rhs = shape_of(rhs),
            .result = shape_of(result),
            .lhs_spec = numbers("lhs_spec"),
            .rhs_spec = numbers("rhs_spec"),
            .out_spec = numbers("out_spec"),
            .strides = numbers("strides"),
            .low = numbers("low"),
            .high = numbers("high"),
            .lhs_dilation = numbers("lhs_dilation"),
            .rhs_dilation = numbers("rhs_dilation"),
            .feature_groups = numbers("groups").at(0),
            .batch_groups = numbers("groups").at(1)},
           x, y, z, for_each);
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return collectives::handle_ffi_call(*frame, execute); }

}  // namespace

void* onednn_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::onednn
