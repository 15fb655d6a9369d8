// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/operand.h"

#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <limits>

#include "lockstep/array/data.h"
#include "lockstep/array/exact_number.h"
#include "lockstep/array/host.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

template <class T>
Array host_scalar(T value, bool weak) {
  return internal::array_from_host(&value, dtype_of<T>, {}, weak);
}

/// A concrete scalar; of f32 for the floating dtypes that C++ does not have.
Array host_number(std::int64_t integer, double real, ElementType type) {
  switch (type.dtype) {
    case DType::kBool: {
      const std::uint8_t value = real != 0;
      return internal::array_from_host(&value, DType::kBool, {}, type.weak);
    }
    case DType::kF64:
      return host_scalar(real, type.weak);
    case DType::kC64:
      return host_scalar(std::complex<float>(static_cast<float>(real), 0), type.weak);
    case DType::kC128:
      return host_scalar(std::complex<double>(real, 0), type.weak);
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
    case DType::kF32:
      return host_scalar(static_cast<float>(real), type.weak);
    default:
      // Two's complement, little-endian: the low bytes are the number in a narrower dtype.
      return internal::array_from_host(&integer, type.dtype, {}, type.weak);
  }
}

/// As host_number; a number that this thread used lately is not made again.
Array kept_number(std::int64_t integer, double real, ElementType type) {
  struct Kept {
    std::int64_t integer;
    std::uint64_t real;
    ElementType type;
    Array array;
  };
  check_before_end("array");
  thread_local std::array<Kept, 32> recent;
  const auto bits = std::bit_cast<std::uint64_t>(real);
  const std::uint64_t hash =
      (bits ^ static_cast<std::uint64_t>(integer) ^ static_cast<std::uint64_t>(type.dtype) << 1 ^ type.weak) *
      0x9E3779B97F4A7C15;
  Kept& kept = recent[hash >> 59];
  // A caller that was given the array may have deleted it, and this process may be in another job.
  const internal::ArrayData* data = kept.array.valid() ? internal::data_of(kept.array).get() : nullptr;
  const bool there =
      data != nullptr && !data->shards.empty() && data->type->job == runtime::Runtime::get().job();
  if (!there || kept.integer != integer || kept.real != bits || !(kept.type == type))
    kept = {integer, bits, type, host_number(integer, real, type)};
  if (type == ElementType{DType::kF32, true}) internal::data_of(kept.array)->number = real;
  return kept.array;
}

}  // namespace

Operand::Operand(Array array, std::source_location where) : array_(std::move(array)), where_(where) {
  if (!array_.valid()) {
    CallSiteScope here(site());
    fail("an Array without a value is used in an operation (at {}); assign it first",
         CallSiteScope::current().to_string());
  }
  const Aval& aval = array_.aval();
  type_ = {aval.dtype, aval.weak_type};
}

void Operand::set_bool(bool value) {
  kind_ = Kind::kBool;
  type_ = {DType::kBool, false};
  integer_ = value;
  real_ = value;
}

void Operand::set_real(double value) {
  kind_ = Kind::kReal;
  type_ = {DType::kF32, true};
  real_ = value;
}

void Operand::set_integer(std::int64_t value, bool too_large) {
  if (too_large) {
    CallSiteScope here(site());
    fail<DTypeError>(
        "a number is larger than the largest 64-bit signed integer (at {}); give it as an array of u64",
        CallSiteScope::current().to_string());
  }
  kind_ = Kind::kInteger;
  type_ = {DType::kI32, true};
  integer_ = value;
  real_ = static_cast<double>(value);
}

const Shape& Operand::shape() const {
  static const Shape scalar;
  return is_number() ? scalar : array_.shape();
}

Array Operand::as_array(ElementType type, const Shape& shape) const {
  if (!is_number()) {
    const bool wide = type.dtype == DType::kF64 || type.dtype == DType::kC128;
    return wide && type_ == ElementType{DType::kF32, true} ? internal::exact_number(array_) : array_;
  }
  if (kind_ == Kind::kReal && !is_inexact(type.dtype)) {
    fail<DTypeError>("the number {} is not of dtype {} (at {}); convert the array with astype, or the number",
                     real_, name(type.dtype), CallSiteScope::current().to_string());
  }
  if (!holds(type.dtype, integer_)) {
    fail<DTypeError>(
        "the number {} does not fit into {} (at {}); convert the array with astype to a wider dtype",
        integer_, name(type.dtype), CallSiteScope::current().to_string());
  }
  if (Trace::current() == nullptr) return kept_number(integer_, real_, type);
  ir::Scalar value = is_inexact(type.dtype) ? ir::Scalar::of(real_) : ir::Scalar::of(integer_);
  return apply_primitive(ir::full_p(), ir::OpParams::of(ir::FullParams{value, type.dtype, shape, type.weak}),
                         std::span<const Array>())
      .front();
}

}  // namespace lockstep
