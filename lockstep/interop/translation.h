// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declarations that the sources of the translation share.

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

/// The module around an operation.
class Surroundings {
 public:
  virtual ~Surroundings() = default;

  /// The results of a region for single elements, for each place of these arrays, which are of one shape.
  virtual std::vector<Array> for_each_element(const Region& region, std::span<const Array> arrays) = 0;

  /// The body of the module's function of this name.
  virtual const Region& function(const std::string& name) const = 0;

  /// The number that a value is in every element, where it is known.
  virtual std::optional<ir::Scalar> known(std::size_t value) const = 0;
};

/// An operation of the module with its operands, and what it says.
class Call {
 public:
  Call(const Operation& operation, std::vector<Array> operands,
       std::vector<std::optional<ir::Scalar>> constants, std::vector<const Operation*> producers,
       Surroundings& module);

  const Operation& operation;
  Surroundings& module;
  const std::string name;  ///< "add", without dialect and version
  const std::vector<Array> operands;

  /// For each operand, the number that all its elements are, if it is known.
  const std::vector<std::optional<ir::Scalar>> constants;

  /// The operation that each operand is the result of; null of an argument.
  const std::vector<const Operation*> producers;

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

  /// An entry of a custom call's own configuration; of one that is not there, none.
  std::optional<std::int64_t> configured(const std::string& name) const;

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
std::optional<ir::Scalar> splat_of(const Attribute& tensor);

/// The results of an operation that holds no program that runs, and calls no function.
std::vector<Array> plain_results(const Call& call);

/// The same for those whose regions say how two elements become one, or compare.
std::vector<Array> reduction_results(const Call& call);
bool is_reduction(std::string_view name);

/// The same for reductions and selections of windows.
std::vector<Array> reduce_window(const Call& call);
std::vector<Array> select_and_scatter(const Call& call);

/// The operands in the order along the dimension for which the region says whether an element comes before
/// another.
std::vector<Array> sorted_by(const Call& call, const Region& region, std::span<const Array> operands,
                             std::int64_t dimension, bool stable);

/// The results of a function of jaxlib's.
std::vector<Array> custom_call(const Call& call);

/// Integers in the total order of floating-point numbers: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
Array total_order(const Array& x);

/// An operation that makes one element of two, as its region says it.
struct Combining {
  const char* name;
  const ir::Primitive& (*two)();
  const ir::Primitive& (*reduce)();
  const ir::Primitive& (*window)();
  const ir::Primitive& (*running)();
  const ir::Primitive& (*scatter)();
};

/// The region's one operation on its two arguments; null where it is something else.
const Combining* combining_of(const Region& region);

/// Whether the value is what the operation leaves alone.
bool is_neutral(const Combining& combining, const std::optional<ir::Scalar>& value, DType dtype);

/// "vhlo.add_v1" as "add".
std::string operation_name(const Operation& operation);

/// From several arrays to as many: those that a region makes of two elements of each.
std::vector<Array> combined(const Call& call, std::span<const Array> first, std::span<const Array> second);

/// The elements of each from `start` along the dimension, `count` of them, `stride` apart.
std::vector<Array> sliced(std::span<const Array> arrays, std::int64_t dimension, std::int64_t start,
                          std::int64_t count, std::int64_t stride = 1);

}  // namespace lockstep::interop
