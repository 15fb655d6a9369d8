// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/function.h"
#include "lockstep/program/aval.h"

namespace lockstep::data {

/// A value of a record: dense row-major numbers, or text and other bytes as u8 of their length.
struct Field {
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::byte> bytes;

  template <class T>
  static Field of(std::span<const T> values, Shape shape) {
    const auto bytes = std::as_bytes(values);
    return {dtype_of<T>, std::move(shape), {bytes.begin(), bytes.end()}};
  }
  template <class T>
  static Field of(const std::vector<T>& values) {
    return of(std::span<const T>(values), {std::ssize(values)});
  }
  template <class T>
  static Field scalar(T value) {
    return of(std::span<const T>(&value, 1), {});
  }
  static Field text(std::string_view text);

  /// The numbers. Throws DTypeError if T is not the C++ type of the dtype.
  template <class T>
  std::vector<T> values() const {
    check_dtype(dtype_of<T>);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

  /// The bytes as text. Throws DTypeError if the dtype is not u8.
  std::string_view text() const;

  bool operator==(const Field&) const = default;

 private:
  void check_dtype(DType asked) const;
};

/// One record of a data file: its fields by name.
using Record = std::map<std::string, Field, std::less<>>;

/// The field of this name. Throws DataError, which names the existing fields.
const Field& field(const Record& record, std::string_view name);

/// "{image: u8[28,28], label: i32[]}"
std::string to_string(const Record& record);

/// The fingerprint of names, dtypes, shapes and bytes.
Fingerprint fingerprint_of(const Record& record);

}  // namespace lockstep::data
