// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "lockstep/array/host.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"
#include "lockstep/interop/bytes.h"
#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::interop {
namespace {

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The element at `at`; none of a complex number, and of one that no i64 holds.
std::optional<ir::Scalar> element(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
      return ir::Scalar::of(*at != 0);
    case DType::kI8:
      return ir::Scalar::of(std::int64_t{read<std::int8_t>(at)});
    case DType::kI16:
      return ir::Scalar::of(std::int64_t{read<std::int16_t>(at)});
    case DType::kI32:
      return ir::Scalar::of(std::int64_t{read<std::int32_t>(at)});
    case DType::kI64:
      return ir::Scalar::of(read<std::int64_t>(at));
    case DType::kU8:
      return ir::Scalar::of(std::int64_t{read<std::uint8_t>(at)});
    case DType::kU16:
      return ir::Scalar::of(std::int64_t{read<std::uint16_t>(at)});
    case DType::kU32:
      return ir::Scalar::of(std::int64_t{read<std::uint32_t>(at)});
    case DType::kU64: {
      const auto value = read<std::uint64_t>(at);
      if (value >> 63 != 0) return std::nullopt;
      return ir::Scalar::of(static_cast<std::int64_t>(value));
    }
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      return ir::Scalar::of(static_cast<double>(narrow_float_value(dtype, at)));
    case DType::kF32:
      return ir::Scalar::of(static_cast<double>(read<float>(at)));
    case DType::kF64:
      return ir::Scalar::of(read<double>(at));
    case DType::kC64:
    case DType::kC128:
      break;
  }
  return std::nullopt;
}

/// The aval of a tensor whose bytes are all its elements, or one for all of them.
Aval checked(const Attribute& tensor, bool& is_splat) {
  if (tensor.kind != Attribute::Kind::kTensor) fail_damaged("a constant is not a tensor");
  Aval aval = aval_of(*tensor.type);
  const auto all = static_cast<std::size_t>(aval.bytes());
  // Bools are packed eight to a byte; in a byte that stands for all of them, all bits are alike.
  if (aval.dtype == DType::kBool &&
      tensor.text.size() == static_cast<std::size_t>(aval.num_elements() + 7) / 8) {
    is_splat = false;
    return aval;
  }
  is_splat = tensor.text.size() == size_of(aval.dtype) && aval.num_elements() > 0;
  if (!is_splat && tensor.text.size() != all) fail_damaged("a constant has other bytes than its type says");
  return aval;
}

/// Bools of which eight are in a byte, one in each.
std::string unpacked_bools(const Attribute& tensor, std::int64_t count) {
  std::string bools;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    bools += static_cast<char>(static_cast<std::uint8_t>(tensor.text.at(i / 8)) >> (i % 8) & 1);
  return bools;
}

}  // namespace

std::optional<ir::Scalar> splat_of(const Attribute& tensor) {
  bool is_splat = false;
  const Aval aval = checked(tensor, is_splat);
  return is_splat ? element(aval.dtype, tensor.text.data()) : std::nullopt;
}

Array constant_of(const Attribute& tensor) {
  bool is_splat = false;
  const Aval aval = checked(tensor, is_splat);
  if (is_splat) {
    if (const auto value = element(aval.dtype, tensor.text.data()))
      return ir::lax::full(Array(), *value, aval.dtype, aval.shape);
    return ir::lax::broadcast_in_dim(internal::array_from_host(tensor.text.data(), aval.dtype, {}),
                                     aval.shape, {});
  }
  if (aval.dtype != DType::kBool)
    return internal::array_from_host(tensor.text.data(), aval.dtype, aval.shape);
  return internal::array_from_host(unpacked_bools(tensor, aval.num_elements()).data(), aval.dtype,
                                   aval.shape);
}

std::vector<std::int64_t> integers_of(const Attribute& tensor) {
  bool is_splat = false;
  const Aval aval = checked(tensor, is_splat);
  if (!is_integer(aval.dtype) && aval.dtype != DType::kBool) fail_damaged("a list of numbers has fractions");
  if (aval.dtype == DType::kBool && !is_splat) {
    const std::string bools = unpacked_bools(tensor, aval.num_elements());
    return {bools.begin(), bools.end()};
  }
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < aval.num_elements(); ++i) {
    const std::size_t at = is_splat ? 0 : static_cast<std::size_t>(i) * size_of(aval.dtype);
    all.push_back(element(aval.dtype, tensor.text.data() + at)->integer);
  }
  return all;
}

Aval aval_of(const Type& type) {
  if (type.kind == Type::Kind::kTensor) {
    for (const std::int64_t size : type.shape) {
      if (size < 0) {
        fail<Error>(
            "[import_jax_export] the module has an array of a size that is known only when it runs; "
            "export the function for fixed sizes");
      }
    }
    for (std::size_t i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (info(dtype).mlir_name == type.element->name) return {dtype, type.shape};
    }
    fail<Error>("[import_jax_export] the module has an array of the dtype {}, which Lockstep does not have",
                type.element->name);
  }
  fail<Error>("[import_jax_export] the module has {}; expected arrays only", type.name);
}

}  // namespace lockstep::interop
