// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the sources of the translation share.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/array/trace.h"
#include "lockstep/interop/module.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/op_params.h"

namespace lockstep::interop {

/// An operation of the module with its operands, and what it says.
class Call {
 public:
  Call(const Operation& operation, std::vector<Array> operands, std::vector<std::optional<Scalar>> constants);

  const Operation& operation;
  const std::string name;  ///< "add", without dialect and version
  const std::vector<Array> operands;

  /// Of operands that are one known number in every element.
  const std::vector<std::optional<Scalar>> constants;

  const Array& operand(std::size_t i) const;
  std::span<const Array> operands_from(std::size_t i) const;
  Aval result(std::size_t i = 0) const;

  /// Attributes, which must be there; those with `otherwise` need not.
  std::int64_t integer(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  std::vector<std::int64_t> numbers(const std::string& name) const;
  std::vector<std::int64_t> numbers(const std::string& name, std::vector<std::int64_t> otherwise) const;
  std::string text(const std::string& name) const;
  const Region& region(std::size_t i) const;

  /// Throws Error: that what the operation asks for is not there.
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  const Attribute& attribute(const std::string& name) const;
};

/// The dtype and shape of a type. Throws Error for one that no array has.
Aval aval_of(const Type& type);

/// The numbers of a tensor of integers.
std::vector<std::int64_t> integers_of(const Attribute& tensor);

/// The array that a tensor in the module is, and the number that it is in every element, where it is one.
Array constant_of(const Attribute& tensor);
std::optional<Scalar> splat_of(const Attribute& tensor);

/// The results of an operation that holds no program that runs, and calls no function.
std::vector<Array> plain_results(const Call& call);

/// The same for those whose regions say how two elements become one, or compare.
std::vector<Array> reduction_results(const Call& call);
bool is_reduction(std::string_view name);

}  // namespace lockstep::interop
