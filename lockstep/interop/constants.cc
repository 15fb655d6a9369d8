// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "lockstep/array/host.h"
#include "lockstep/base/cpp_type.h"
#include "lockstep/base/fail.h"
#include "lockstep/interop/bytes.h"
#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::interop {
namespace {

/// The element at `at`; none of a complex number, and of one that no i64 holds.
std::optional<ir::Scalar> element(DType dtype, const char* at) {
  return with_element(dtype, at, []<class T>(T value) -> std::optional<ir::Scalar> {
    if constexpr (std::is_same_v<T, bool>) {
      return ir::Scalar::of(value);
    } else if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<std::int64_t>(value)) return std::nullopt;
      return ir::Scalar::of(static_cast<std::int64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      return ir::Scalar::of(static_cast<double>(value));
    } else {
      return std::nullopt;
    }
  });
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
