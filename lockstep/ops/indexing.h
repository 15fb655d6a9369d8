// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/gather_scatter_mode.h"
#include "lockstep/sharding/partition_spec.h"

/// Reading and writing parts of arrays, with NumPy's rules:
///
///   x[1]                                     x[{-1, slice(0, none, 2)}]
///   x[{ellipsis, newaxis, ids}]              x.at({ids, 0}).add(1.0f)
///
/// A number selects an element and removes its dimension. A slice takes every step-th element; its negative
/// bounds count from the end. `ellipsis` is slice() for all remaining dimensions. `newaxis` inserts a
/// dimension of size 1. Integer arrays are broadcast together and select elements that are known only at run
/// time. Their dimensions replace the first indexed dimension, or come first in the result if a slice or a
/// new axis is between two of the arrays (or between an array and a number).
///
/// A number out of bounds is a ShapeError. In index arrays, negative indices count from the end; an index
/// that is still out of bounds is clamped when reading, and ignored when writing, as in JAX.
namespace lockstep {

struct Ellipsis {};
inline constexpr Ellipsis ellipsis;
struct NewAxis {};
inline constexpr NewAxis newaxis;

/// The elements start, start + step, … before stop.
struct Slice {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};

/// A bound of a slice: a number, or `none` for the array's end.
struct SliceBound {
  SliceBound(std::int64_t number) : number(number) {}
  SliceBound(None) {}
  std::optional<std::int64_t> number;
};

/// x[start:stop:step]. Using a step of 0 throws a ShapeError.
inline Slice slice(SliceBound start, SliceBound stop, std::int64_t step = 1) {
  return {start.number, stop.number, step};
}
inline Slice slice() { return {}; }

/// One index within the brackets, for one dimension or `ellipsis` or `newaxis`.
class Index {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>)
      Index(T number, std::source_location where = std::source_location::current())
      : kind_(Kind::kNumber), number_(static_cast<std::int64_t>(number)), where_(where) {}
  Index(Slice slice, std::source_location where = std::source_location::current())
      : kind_(Kind::kSlice), slice_(slice), where_(where) {}
  Index(Ellipsis, std::source_location where = std::source_location::current())
      : kind_(Kind::kEllipsis), where_(where) {}
  Index(NewAxis, std::source_location where = std::source_location::current())
      : kind_(Kind::kNewAxis), where_(where) {}
  Index(Array array, std::source_location where = std::source_location::current())
      : kind_(Kind::kArray), array_(std::move(array)), where_(where) {}

  enum class Kind : std::uint8_t { kNumber, kSlice, kEllipsis, kNewAxis, kArray };
  Kind kind() const { return kind_; }
  std::int64_t number() const { return number_; }
  const Slice& range() const { return slice_; }
  const Array& array() const { return array_; }
  CallSite site() const { return CallSite::from(where_); }

 private:
  Kind kind_;
  std::int64_t number_ = 0;
  Slice slice_;
  Array array_;
  std::source_location where_;
};

struct IndexOptions {
  /// By default kClip when reading and kFillOrDrop when writing.
  std::optional<GatherScatterMode> mode = std::nullopt;

  /// The value of elements out of bounds with kFillOrDrop; by default NaN, for signed integers the lowest,
  /// for unsigned ones the highest number.
  std::optional<double> fill_value = std::nullopt;

  /// A promise of the caller that no element is written twice.
  bool unique_indices = false;
};

/// x.at(…): a part of x, which can be read, or written into a new array. Values are broadcast to the part's
/// shape, and must have a dtype that promotes to x's (DTypeError otherwise).
class IndexUpdate {
 public:
  IndexUpdate(Array x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}

  Array get(IndexOptions options = {}) const;

  /// If an element gets several values, set writes one of them, and the other functions combine all of them.
  Array set(const Operand& values, IndexOptions options = {}) const;
  Array add(const Operand& values, IndexOptions options = {}) const;
  Array multiply(const Operand& values, IndexOptions options = {}) const;
  Array subtract(const Operand& values, IndexOptions options = {}) const;
  Array min(const Operand& values, IndexOptions options = {}) const;
  Array max(const Operand& values, IndexOptions options = {}) const;

  /// x divided by the values in the part, and to the power of them. Integers that are divided become floating
  /// numbers, as by divide. An element that gets several values is divided by their product, or raised to it.
  Array divide(const Operand& values, IndexOptions options = {}) const;
  Array power(const Operand& values, IndexOptions options = {}) const;

  /// x with f(part) in the place of the part: set(f(get())). f gets an array of the part's shape.
  template <class F>
  Array apply(F&& f, IndexOptions options = {},
              std::source_location where = std::source_location::current()) const {
    return set(Operand(f(get(options)), where), options);
  }

 private:
  Array x_;
  std::vector<Index> indices_;
};

#if __cpp_multidimensional_subscript >= 202110L
template <class... Others>
requires(sizeof...(Others) > 0) Array Array::operator[](const Index& first, const Others&... others) const {
  return (*this)[{first, Index(others)...}];
}
#endif

struct TakeOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< none: x is flattened first
  GatherScatterMode mode = GatherScatterMode::kFillOrDrop;
  std::optional<double> fill_value = std::nullopt;
};

/// The elements at the indices along the axis. The dimensions of the indices replace the axis.
Array take(const Operand& x, const Operand& indices, TakeOptions options = {});
Array take(const Operand& x, const Operand& indices, std::int64_t axis);

/// Along the axis, the result at […, k, …] is the element at indices[…, k, …]. x and the indices have the
/// same rank, and are broadcast together in all dimensions except the axis.
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis = -1,
                      GatherScatterMode mode = GatherScatterMode::kFillOrDrop,
                      std::optional<double> fill_value = std::nullopt);

/// x with `values`, broadcast to the indices' shape, written where take_along_axis would read.
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis = -1);

}  // namespace lockstep
