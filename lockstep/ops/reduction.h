// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"

/// Reductions. Axes count from 0, or from -1 at the end; an axis out of range throws a ShapeError.
namespace lockstep {

/// The axes to reduce: one, several, or by default all.
class Axes {
 public:
  Axes() = default;
  template <std::integral T>
  requires(!std::same_as<T, bool>) Axes(T axis) : axes_(std::vector{static_cast<std::int64_t>(axis)}) {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  Axes(std::vector<std::int64_t> axes) : axes_(std::move(axes)) {}

  /// nullopt: all axes.
  const std::optional<std::vector<std::int64_t>>& axes() const { return axes_; }

 private:
  std::optional<std::vector<std::int64_t>> axes_;
};

/// sum(x), sum(x, 1), sum(x, {.axis = {0, 1}, .keepdims = true}).
struct ReduceOptions {
  Axes axis = {};
  bool keepdims = false;  ///< keep the reduced dimensions with size 1
};

struct VarianceOptions {
  Axes axis = {};
  bool keepdims = false;
  double ddof = 0;  ///< the sum of squares is divided by the number of elements minus ddof
};

/// Sums and products of bools and small integers are i32 (u32 for unsigned ones); f16 and bf16 are summed in
/// f32. An empty sum is 0, an empty product 1.
Array sum(const Operand& x, ReduceOptions options = {});
Array sum(const Operand& x, std::int64_t axis);
Array prod(const Operand& x, ReduceOptions options = {});
Array prod(const Operand& x, std::int64_t axis);

/// Throw ShapeError over no elements. Complex numbers are ordered as by maximum (elementwise.h).
Array max(const Operand& x, ReduceOptions options = {});
Array max(const Operand& x, std::int64_t axis);
Array min(const Operand& x, ReduceOptions options = {});
Array min(const Operand& x, std::int64_t axis);

/// Integers are converted to a floating dtype first (to_inexact).
Array mean(const Operand& x, ReduceOptions options = {});
Array mean(const Operand& x, std::int64_t axis);
Array var(const Operand& x, VarianceOptions options = {});
Array var(const Operand& x, std::int64_t axis);
Array std_(const Operand& x, VarianceOptions options = {});
Array std_(const Operand& x, std::int64_t axis);

/// log(sum(exp(x))), without overflow.
Array logsumexp(const Operand& x, ReduceOptions options = {});
Array logsumexp(const Operand& x, std::int64_t axis);

/// any: whether any element is true; all: whether every element is. A number counts as true if it is not 0.
Array any(const Operand& x, ReduceOptions options = {});
Array any(const Operand& x, std::int64_t axis);
Array all(const Operand& x, ReduceOptions options = {});
Array all(const Operand& x, std::int64_t axis);

/// argmax, argmin: the position, as i32, of the largest or smallest element along the axis; of equal elements
/// the first. Without an axis it is the position among all elements in row-major order. NaN counts as the
/// largest (smallest).
Array argmax(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);
Array argmin(const Operand& x, std::optional<std::int64_t> axis = std::nullopt);

}  // namespace lockstep
