// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

/// Primitives that create values and move elements.
const Primitive& full_p();
const Primitive& iota_p();
const Primitive& broadcast_in_dim_p();
const Primitive& reshape_p();
const Primitive& transpose_p();
const Primitive& slice_p();
const Primitive& pad_p();
const Primitive& concatenate_p();
const Primitive& dynamic_slice_p();
const Primitive& dynamic_update_slice_p();

struct FullParams {
  static constexpr std::array<std::string_view, 4> kFields = {"value", "dtype", "shape", "weak_type"};
  Scalar value;
  DType dtype;
  Shape shape;
  bool weak_type;
};

struct IotaParams {
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "dimension"};
  DType dtype;
  Shape shape;
  std::int64_t dimension;
};

struct BroadcastInDimParams {
  static constexpr std::array<std::string_view, 2> kFields = {"shape", "broadcast_dimensions"};
  Shape shape;
  std::vector<std::int64_t> broadcast_dimensions;
};

struct ReshapeParams {
  static constexpr std::array<std::string_view, 1> kFields = {"new_sizes"};
  Shape new_sizes;
};

struct TransposeParams {
  static constexpr std::array<std::string_view, 1> kFields = {"permutation"};
  std::vector<std::int64_t> permutation;
};

struct SliceParams {
  static constexpr std::array<std::string_view, 3> kFields = {"start_indices", "limit_indices", "strides"};
  std::vector<std::int64_t> start_indices, limit_indices, strides;
};

struct PadParams {
  static constexpr std::array<std::string_view, 3> kFields = {"low", "high", "interior"};
  std::vector<std::int64_t> low, high, interior;
};

struct ConcatenateParams {
  static constexpr std::array<std::string_view, 1> kFields = {"dimension"};
  std::int64_t dimension;
};

struct DynamicSliceParams {
  static constexpr std::array<std::string_view, 1> kFields = {"slice_sizes"};
  Shape slice_sizes;
};

namespace lax {

/// An array with the value in every element. `like` only determines where the equation is added.
template <Operand V>
V full(const V& like, Scalar value, DType dtype, Shape shape, bool weak_type = false) {
  return apply_primitive_like(like, full_p(),
                              OpParams::of(FullParams{value, dtype, std::move(shape), weak_type}));
}

/// An array with x's shape and dtype and the value in every element.
template <Operand V>
V full_like(const V& x, double value) {
  return full(x,
              is_inexact(x.aval().dtype) ? Scalar::of(value) : Scalar::of(static_cast<std::int64_t>(value)),
              x.aval().dtype, x.aval().shape, x.aval().weak_type);
}

/// Each element's index along the dimension, from 0.
template <Operand V>
V iota(const V& like, DType dtype, Shape shape, std::int64_t dimension) {
  return apply_primitive_like(like, iota_p(), OpParams::of(IotaParams{dtype, std::move(shape), dimension}));
}

/// x's dimension i becomes dimension broadcast_dimensions[i] of the result; x's size there must be the
/// result's, or 1.
template <Operand V>
V broadcast_in_dim(const V& x, Shape shape, std::vector<std::int64_t> broadcast_dimensions) {
  return apply1<V>(broadcast_in_dim_p(),
                   OpParams::of(BroadcastInDimParams{std::move(shape), std::move(broadcast_dimensions)}),
                   {x});
}

/// The same elements in row-major order, in another shape with the same number of elements.
template <Operand V>
V reshape(const V& x, Shape new_sizes) {
  if (x.aval().shape == new_sizes) return x;
  return apply1<V>(reshape_p(), OpParams::of(ReshapeParams{std::move(new_sizes)}), {x});
}

/// Dimension i of the result is dimension permutation[i] of x.
template <Operand V>
V transpose(const V& x, std::vector<std::int64_t> permutation) {
  bool same = true;
  for (std::size_t i = 0; i < permutation.size(); ++i)
    same = same && permutation[i] == static_cast<std::int64_t>(i);
  if (same && static_cast<std::int64_t>(permutation.size()) == x.aval().rank()) return x;
  return apply1<V>(transpose_p(), OpParams::of(TransposeParams{std::move(permutation)}), {x});
}

/// The elements start, start + stride, … below limit, in each dimension. By default all strides are 1.
template <Operand V>
V slice(const V& x, std::vector<std::int64_t> start, std::vector<std::int64_t> limit,
        std::vector<std::int64_t> strides = {}) {
  if (strides.empty()) strides.assign(start.size(), 1);
  return apply1<V>(slice_p(),
                   OpParams::of(SliceParams{std::move(start), std::move(limit), std::move(strides)}), {x});
}

/// x with `value`, a scalar, added before, after and between its elements in each dimension; negative low and
/// high remove elements.
template <Operand V>
V pad(const V& x, const V& value, std::vector<std::int64_t> low, std::vector<std::int64_t> high,
      std::vector<std::int64_t> interior) {
  return apply1<V>(pad_p(), OpParams::of(PadParams{std::move(low), std::move(high), std::move(interior)}),
                   {x, value});
}

/// The operands concatenated along the dimension; at least one.
template <Operand V>
V concatenate(std::span<const V> operands, std::int64_t dimension) {
  return std::move(
      apply_primitive(concatenate_p(), OpParams::of(ConcatenateParams{dimension}), operands).front());
}

/// The part of x, of size slice_sizes, at `starts`, one integer scalar for each dimension; starts are clamped
/// so that the part is within x.
template <Operand V>
V dynamic_slice(const V& x, std::span<const V> starts, Shape slice_sizes) {
  std::vector<V> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return std::move(apply_primitive(dynamic_slice_p(),
                                   OpParams::of(DynamicSliceParams{std::move(slice_sizes)}),
                                   std::span<const V>(operands))
                       .front());
}

/// x with the part at `starts` replaced by `update`.
template <Operand V>
V dynamic_update_slice(const V& x, const V& update, std::span<const V> starts) {
  std::vector<V> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return std::move(
      apply_primitive(dynamic_update_slice_p(), OpParams(), std::span<const V>(operands)).front());
}

}  // namespace lax
}  // namespace lockstep::ir
