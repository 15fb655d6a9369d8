// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <source_location>
#include <utility>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/ops/promotion.h"

namespace lockstep {

/// The argument type of all operations: an array or a C++ number, with the user's call site. A number's dtype
/// is weak: i32 for integers, f32 for floating numbers, unless the other operands determine another one.
class Operand {
 public:
  /// Throws Error for an Array without a value.
  Operand(Array array, std::source_location where = std::source_location::current());

  template <Number T>
  Operand(T number, std::source_location where = std::source_location::current()) : where_(where) {
    if constexpr (std::same_as<T, bool>) {
      set_bool(number);
    } else if constexpr (std::is_floating_point_v<T>) {
      set_real(static_cast<double>(number));
    } else {
      set_integer(static_cast<std::int64_t>(number), std::cmp_greater(number, INT64_MAX));
    }
  }

  CallSite site() const { return CallSite::from(where_); }
  const std::source_location& where() const { return where_; }
  bool is_number() const { return kind_ != Kind::kArray; }
  bool is_integer_number() const { return kind_ == Kind::kInteger; }

  /// The number, if the operand is one.
  std::int64_t integer() const { return integer_; }
  double real() const { return real_; }

  ElementType type() const { return type_; }
  const Shape& shape() const;
  Aval aval() const { return {type_.dtype, shape(), type_.weak, {}}; }

  /// The operand as an array. An array is returned as it is. A number becomes an array of this type: in a
  /// trace an equation that fills `shape` with it, otherwise a scalar (f32 if the type is narrower; the
  /// operation converts it), so that another number needs no new program. Throws DTypeError for an integer
  /// that the type cannot hold.
  Array as_array(ElementType type, const Shape& shape = {}) const;
  Array as_array() const { return as_array(type_); }

 private:
  enum class Kind : std::uint8_t { kArray, kBool, kInteger, kReal };

  void set_bool(bool value);
  void set_real(double value);
  void set_integer(std::int64_t value, bool too_large);

  Kind kind_ = Kind::kArray;
  ElementType type_;
  std::int64_t integer_ = 0;
  double real_ = 0;
  Array array_;
  std::source_location where_;
};

}  // namespace lockstep
