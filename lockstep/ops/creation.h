#pragma once

#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "lockstep/ops/operand.h"

/// Making arrays. Outside of traced functions they lie on this process's first device, and move to where the
/// other arrays of a computation are. Sizes below 0 are a ShapeError.
namespace lockstep {

using SourceLocation = std::source_location;

Array zeros(const Shape& shape, DType dtype = DType::kF32, SourceLocation where = SourceLocation::current());
Array ones(const Shape& shape, DType dtype = DType::kF32, SourceLocation where = SourceLocation::current());

/// The value in every element; of the value's own dtype (f32, i32 or bool of numbers) where none is given.
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype = std::nullopt);

/// Of x's shape and spread over devices as x is; of x's dtype where none is given.
Array zeros_like(const Operand& x, std::optional<DType> dtype = std::nullopt);
Array ones_like(const Operand& x, std::optional<DType> dtype = std::nullopt);
Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype = std::nullopt);

/// 0, 1, … below stop; start, start + step, … before stop. Of i32 where all numbers given are whole (i64
/// where that does not hold them all), else f32, unless a dtype is given. Throws Error for a step of 0.
Array arange(const Operand& stop, std::optional<DType> dtype = std::nullopt);
Array arange(const Operand& start, const Operand& stop, const Operand& step = 1,
             std::optional<DType> dtype = std::nullopt);

/// `count` numbers at equal distances, from start to stop, both included.
Array linspace(double start, double stop, std::int64_t count = 50, DType dtype = DType::kF32,
               SourceLocation where = SourceLocation::current());

/// Ones on the diagonal, and zeros.
Array eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, DType dtype = DType::kF32,
          SourceLocation where = SourceLocation::current());

/// A row for each index: one at the index, zeros elsewhere; zeros alone where it is not one of 0 … classes
/// - 1.
Array one_hot(const Operand& indices, std::int64_t classes, DType dtype = DType::kF32);

/// An array of data from host memory, which is copied, row-major; of the dtype that fits T (double: f64).
/// Throws ShapeError where there are not as many values as the shape has elements.
template <class T>
Array array(std::span<const T> values, const Shape& shape, SourceLocation where = SourceLocation::current());
template <class T>
Array array(const std::vector<T>& values, const Shape& shape,
            SourceLocation where = SourceLocation::current());
template <class T>
Array array(const std::vector<T>& values, SourceLocation where = SourceLocation::current());
template <class T>
Array array(std::initializer_list<T> values, SourceLocation where = SourceLocation::current());
template <class T>
Array array(std::initializer_list<T> values, const Shape& shape,
            SourceLocation where = SourceLocation::current());

/// A matrix of rows, which must be of one length.
template <class T>
Array array(std::initializer_list<std::initializer_list<T>> rows,
            SourceLocation where = SourceLocation::current());

namespace ops {
/// Checks the number of values against the shape, and makes the array.
Array from_host(const void* data, std::size_t count, DType dtype, const Shape& shape,
                const SourceLocation& where);
[[noreturn]] void fail_ragged(std::size_t first, std::size_t other, const SourceLocation& where);
}  // namespace ops

template <class T>
Array array(std::span<const T> values, const Shape& shape, SourceLocation where) {
  return ops::from_host(values.data(), values.size(), dtype_of<T>, shape, where);
}

template <class T>
Array array(const std::vector<T>& values, const Shape& shape, SourceLocation where) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());  // vector<bool> has no data()
    return ops::from_host(bytes.data(), bytes.size(), DType::kBool, shape, where);
  } else {
    return ops::from_host(values.data(), values.size(), dtype_of<T>, shape, where);
  }
}

template <class T>
Array array(const std::vector<T>& values, SourceLocation where) {
  return array(values, Shape{static_cast<std::int64_t>(values.size())}, where);
}

template <class T>
Array array(std::initializer_list<T> values, SourceLocation where) {
  return array(std::span<const T>(values.begin(), values.size()),
               Shape{static_cast<std::int64_t>(values.size())}, where);
}

template <class T>
Array array(std::initializer_list<T> values, const Shape& shape, SourceLocation where) {
  return array(std::span<const T>(values.begin(), values.size()), shape, where);
}

template <class T>
Array array(std::initializer_list<std::initializer_list<T>> rows, SourceLocation where) {
  std::vector<T> values;
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  for (const auto& row : rows) {
    if (row.size() != columns) ops::fail_ragged(columns, row.size(), where);
    values.insert(values.end(), row.begin(), row.end());
  }
  return array(values, Shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)},
               where);
}

}  // namespace lockstep
