// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "lockstep/ops/operand.h"

/// Creation of arrays. Outside of traced functions they are placed on this process's first device, and move
/// to the devices of the other arrays of a computation. Throws ShapeError for negative sizes.
namespace lockstep {

using SourceLocation = std::source_location;

Array zeros(const Shape& shape, DType dtype = DType::kF32, SourceLocation where = SourceLocation::current());
Array ones(const Shape& shape, DType dtype = DType::kF32, SourceLocation where = SourceLocation::current());

/// An array with this value in every element. By default it has the value's dtype (for C++ numbers f32, i32
/// or bool).
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype = std::nullopt);

/// The same over the devices of a sharding: each holds its part, and no device the whole. In a traced
/// function the sharding is a constraint. Throws ShardingError if the mesh does not divide a size; the value
/// of `full` is a number or a scalar (ShapeError otherwise).
Array zeros(const Shape& shape, DType dtype, const Sharding& sharding,
            SourceLocation where = SourceLocation::current());
Array ones(const Shape& shape, DType dtype, const Sharding& sharding,
           SourceLocation where = SourceLocation::current());
Array full(const Shape& shape, const Operand& value, DType dtype, const Sharding& sharding);

/// Arrays with x's shape and sharding, and by default with x's dtype.
Array zeros_like(const Operand& x, std::optional<DType> dtype = std::nullopt);
Array ones_like(const Operand& x, std::optional<DType> dtype = std::nullopt);
Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype = std::nullopt);

/// 0, 1, … below stop; or start, start + step, … before stop. By default i32 if all given numbers are
/// integers (i64 if i32 cannot hold the result), else f32. Throws Error for a step of 0.
Array arange(const Operand& stop, std::optional<DType> dtype = std::nullopt);
Array arange(const Operand& start, const Operand& stop, const Operand& step = 1,
             std::optional<DType> dtype = std::nullopt);

/// `count` evenly spaced numbers from start to stop, both included.
Array linspace(double start, double stop, std::int64_t count = 50, DType dtype = DType::kF32,
               SourceLocation where = SourceLocation::current());

/// A matrix with ones on the diagonal and zeros elsewhere.
Array eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, DType dtype = DType::kF32,
          SourceLocation where = SourceLocation::current());

/// For each index a row with a one at the index and zeros elsewhere; only zeros if the index is not in 0 …
/// classes - 1.
Array one_hot(const Operand& indices, std::int64_t classes, DType dtype = DType::kF32);

/// An array with a copy of data from host memory, in row-major order, with the dtype that corresponds to T
/// (double: f64). Throws ShapeError unless the number of values is the number of elements of the shape.
template <class T, std::size_t kExtent>
Array array(std::span<T, kExtent> values, const Shape& shape,
            SourceLocation where = SourceLocation::current());
template <class T, std::size_t kExtent>
Array array(std::span<T, kExtent> values, SourceLocation where = SourceLocation::current());
template <class T, std::size_t kSize>
Array array(const std::array<T, kSize>& values, const Shape& shape,
            SourceLocation where = SourceLocation::current());
template <class T, std::size_t kSize>
Array array(const std::array<T, kSize>& values, SourceLocation where = SourceLocation::current());
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

/// A matrix from its rows, which must have the same length (ShapeError otherwise).
template <class T>
Array array(std::initializer_list<std::initializer_list<T>> rows,
            SourceLocation where = SourceLocation::current());

/// The elements at `values`, of which there must be as many as the shape has. For strides, see
/// lockstep/array/host_view.h.
template <class T>
Array array(const T* values, const Shape& shape, SourceLocation where = SourceLocation::current());

namespace ops {
/// Checks the number of values against the shape, and makes the array.
Array from_host(const void* data, std::size_t count, DType dtype, const Shape& shape,
                const SourceLocation& where);
[[noreturn]] void fail_ragged(std::size_t first, std::size_t other, const SourceLocation& where);
}  // namespace ops

template <class T, std::size_t kExtent>
Array array(std::span<T, kExtent> values, const Shape& shape, SourceLocation where) {
  return ops::from_host(values.data(), values.size(), dtype_of<T>, shape, where);
}

template <class T, std::size_t kExtent>
Array array(std::span<T, kExtent> values, SourceLocation where) {
  return array(values, Shape{static_cast<std::int64_t>(values.size())}, where);
}

template <class T, std::size_t kSize>
Array array(const std::array<T, kSize>& values, const Shape& shape, SourceLocation where) {
  return array(std::span(values), shape, where);
}

template <class T, std::size_t kSize>
Array array(const std::array<T, kSize>& values, SourceLocation where) {
  return array(std::span(values), where);
}

template <class T>
Array array(const T* values, const Shape& shape, SourceLocation where) {
  return ops::from_host(values, static_cast<std::size_t>(num_elements(shape)), dtype_of<T>, shape, where);
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
