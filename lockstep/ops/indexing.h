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
/// A number takes an element and its dimension goes; a slice takes every step-th element and counts from the
/// end where it is negative; `ellipsis` stands for slice() in the dimensions that are left; `newaxis` is a
/// new dimension of size 1. Arrays of whole numbers, which are broadcast together, take elements that are
/// known only when it runs: their dimensions stand where the first of them stood, or in front where a slice
/// or a new axis stands between two of them (or between one and a number).
///
/// A number out of bounds is a ShapeError. Of arrays, negative indices count from the end; what is out of
/// bounds then is read at the nearest index, and is not written at all, as in JAX.
namespace lockstep {

struct Ellipsis {};
inline constexpr Ellipsis ellipsis;
struct NewAxis {};
inline constexpr NewAxis newaxis;

/// Elements start, start + step, … before stop.
struct Slice {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};

/// A number, or `none` for the end that a slice would begin or stop at.
struct SliceBound {
  SliceBound(std::int64_t number) : number(number) {}
  SliceBound(None) {}
  std::optional<std::int64_t> number;
};

/// x[start:stop:step]. A step of 0 is a ShapeError where it is used.
inline Slice slice(SliceBound start, SliceBound stop, std::int64_t step = 1) {
  return {start.number, stop.number, step};
}
inline Slice slice() { return {}; }

/// What stands for one dimension between the brackets.
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

  /// What is read out of bounds in kFillOrDrop; by default NaN, the lowest of signed integers, the highest of
  /// unsigned ones.
  std::optional<double> fill_value = std::nullopt;

  /// The caller says that no element is written twice.
  bool unique_indices = false;
};

/// x.at(…): a part of x, to be read or, in a new array, written. Values are broadcast to the part's shape,
/// and must be of a dtype that promotes to x's (DTypeError).
class IndexUpdate {
 public:
  IndexUpdate(Array x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}

  Array get(IndexOptions options = {}) const;

  /// Of several values for one element set takes one, the others all.
  Array set(const Operand& values, IndexOptions options = {}) const;
  Array add(const Operand& values, IndexOptions options = {}) const;
  Array multiply(const Operand& values, IndexOptions options = {}) const;
  Array min(const Operand& values, IndexOptions options = {}) const;
  Array max(const Operand& values, IndexOptions options = {}) const;

 private:
  Array x_;
  std::vector<Index> indices_;
};

struct TakeOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< none: of x in one dimension
  GatherScatterMode mode = GatherScatterMode::kFillOrDrop;
  std::optional<double> fill_value = std::nullopt;
};

/// The elements at the indices along the axis: the indices' dimensions stand in its place.
Array take(const Operand& x, const Operand& indices, TakeOptions options = {});
Array take(const Operand& x, const Operand& indices, std::int64_t axis);

/// Along the axis, element indices[…, k, …] at […, k, …]. x and the indices are of one rank, and broadcast
/// together but for the axis.
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis = -1,
                      GatherScatterMode mode = GatherScatterMode::kFillOrDrop,
                      std::optional<double> fill_value = std::nullopt);

/// x with `values`, broadcast to the indices' shape, put where take_along_axis would read.
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis = -1);

}  // namespace lockstep
