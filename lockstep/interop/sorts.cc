// SPDX-License-Identifier: Apache-2.0
// Sorts: what a region compares is read from it.

#include <cmath>
#include <limits>
#include <unordered_map>

#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"

namespace lockstep::interop {
namespace {

constexpr std::int64_t kEqual = 0, kNotEqual = 1, kGreater = 3, kLess = 5, kTotalOrder = 2;

/// A key by which elements are compared.
struct Key {
  enum class Part : std::uint8_t { kAll, kReal, kImag };
  std::size_t operand = 0;
  Part part = Part::kAll;
  bool zeros_differ = false;  ///< and NaNs, by the total order
  bool descending = false;

  bool operator==(const Key&) const = default;
};

/// Reads a region that says whether x comes before y: "key of x < key of y", or the same for a first key, or
/// they are equal and so for the others.
class Comparison {
 public:
  Comparison(const Call& call, const Region& region) : call_(call) {
    for (const Operation& op : region.operations)
      if (op.results.size() == 1) made_by_[op.results[0]] = &op;
    for (std::size_t i = 0; i < region.arguments.size(); ++i) arguments_[region.arguments[i]] = i;
    if (region.operations.empty() || region.operations.back().operands.size() != 1) unknown();
    keys_ = keys(region.operations.back().operands[0]);
  }

  const std::vector<Key>& keys() const { return keys_; }

 private:
  /// One side of a comparison.
  struct Side {
    Key key;
    bool is_second = false;
    bool alike = false;  ///< NaNs are made one, and zeros
  };

  [[noreturn]] void unknown() const {
    call_.refuse("it sorts by something other than the order of one operand, or of several in turn");
  }

  const Operation& op(std::size_t value) const {
    const auto found = made_by_.find(value);
    if (found == made_by_.end()) unknown();
    return *found->second;
  }

  bool is(std::size_t value, std::string_view name) const {
    const auto found = made_by_.find(value);
    return found != made_by_.end() && operation_name(*found->second) == name;
  }

  std::vector<Key> keys(std::size_t value) const {
    const Operation& root = op(value);
    if (is(value, "compare")) return {compared(root)};
    if (!is(value, "or") || root.operands.size() != 2) unknown();
    const bool first = is(root.operands[0], "compare");
    const std::size_t less = root.operands[first ? 0 : 1], rest = root.operands[first ? 1 : 0];
    if (!is(less, "compare") || !is(rest, "and")) unknown();
    const Operation& both = op(rest);
    const bool equal_first = is(both.operands.at(0), "compare") && direction(op(both.operands[0])) == kEqual;
    const Operation& equal = op(both.operands.at(equal_first ? 0 : 1));
    std::vector<Key> all = {compared(op(less))};
    if (operation_name(equal) != "compare" || direction(equal) != kEqual) unknown();
    Key same = sides(equal);
    same.descending = all[0].descending;
    if (!(same == all[0])) unknown();
    const std::vector<Key> others = keys(both.operands[equal_first ? 1 : 0]);
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

  static std::int64_t direction(const Operation& compare) {
    const Attribute* found = compare.find("comparison_direction");
    return found == nullptr ? -1 : found->integer;
  }

  /// The key whose values for x and y are compared, in whichever order.
  Key sides(const Operation& compare, bool* swapped = nullptr) const {
    if (compare.operands.size() != 2) unknown();
    Side first = side(compare.operands[0]), second = side(compare.operands[1]);
    if (!(first.key == second.key) || first.alike != second.alike || first.is_second == second.is_second)
      unknown();
    const Attribute* type = compare.find("compare_type");
    first.key.zeros_differ = type != nullptr && type->integer == kTotalOrder && !first.alike;
    if (swapped != nullptr) *swapped = first.is_second;
    return first.key;
  }

  Key compared(const Operation& compare) const {
    bool swapped = false;
    Key key = sides(compare, &swapped);
    const std::int64_t which = direction(compare);
    if (which != kLess && which != kGreater) unknown();
    key.descending = (which == kGreater) != swapped;
    return key;
  }

  Side side(std::size_t value) const {
    if (const auto argument = arguments_.find(value); argument != arguments_.end())
      return {{.operand = argument->second / 2}, argument->second % 2 == 1, false};
    const Operation& root = op(value);
    const std::string name = operation_name(root);
    if ((name == "real" || name == "imag") && root.operands.size() == 1) {
      Side whole = side(root.operands[0]);
      if (whole.key.part != Key::Part::kAll) unknown();
      whole.key.part = name == "real" ? Key::Part::kReal : Key::Part::kImag;
      return whole;
    }
    // select(x is NaN, NaN, select(x == 0, 0, x)), in either order.
    if (name != "select" || root.operands.size() != 3) unknown();
    bool nans = false, zeros = false;
    std::size_t inner = value;
    while (is(inner, "select")) {
      const Operation& select = op(inner);
      const Operation& test = op(select.operands.at(0));
      if (operation_name(test) != "compare" || test.operands.size() != 2) unknown();
      inner = select.operands.at(2);
      std::size_t tested = inner;
      while (is(tested, "select")) tested = op(tested).operands.at(2);
      if (test.operands[0] != tested) unknown();
      const std::optional<double> instead = number(select.operands[1]);
      if (direction(test) == kNotEqual && test.operands[1] == tested && instead && std::isnan(*instead))
        nans = true;
      else if (direction(test) == kEqual && instead == 0.0 && number(test.operands[1]) == 0.0)
        zeros = true;
      else
        unknown();
    }
    Side plain = side(inner);
    plain.alike = nans && zeros;
    return plain;
  }

  /// The number that the value is, where it is known.
  std::optional<double> number(std::size_t value) const {
    const std::optional<ir::Scalar> known =
        is(value, "constant") ? splat_of(*op(value).find("value")) : call_.module.known(value);
    return known ? std::optional(known->real) : std::nullopt;
  }

  const Call& call_;
  std::unordered_map<std::size_t, const Operation*> made_by_;
  std::unordered_map<std::size_t, std::size_t> arguments_;
  std::vector<Key> keys_;
};

/// Numbers whose order is the reverse; of floating-point numbers of which NaNs are one, and zeros.
Array reversed(const Array& x) {
  if (!is_floating(x.dtype())) return ir::lax::logical_not(x);
  const auto all = [&](double value) {
    return ir::lax::full(x, ir::Scalar::of(value), x.dtype(), x.shape());
  };
  const Array numbers = ir::lax::select(ir::lax::ne(x, x), all(std::numeric_limits<double>::quiet_NaN()), x);
  return ir::lax::logical_not(total_order(ir::lax::select(ir::lax::eq(x, all(0)), all(0), numbers)));
}

}  // namespace

Array total_order(const Array& x) {
  const std::int64_t bits = 8 * static_cast<std::int64_t>(size_of(x.dtype()));
  const DType dtype = bits == 8    ? DType::kI8
                      : bits == 16 ? DType::kI16
                      : bits == 32 ? DType::kI32
                                   : DType::kI64;
  const auto number = [&](std::int64_t value) {
    return ir::lax::full(x, ir::Scalar::of(value), dtype, x.shape());
  };
  const Array word = ir::lax::bitcast_convert_type(x, dtype);
  // Negative numbers have all bits but the sign inverted.
  const std::int64_t rest =
      bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  const Array turned =
      ir::lax::logical_and(ir::lax::shift_right_arithmetic(word, number(bits - 1)), number(rest));
  return ir::lax::logical_xor(word, turned);
}

std::vector<Array> sorted_by(const Call& call, const Region& region, std::span<const Array> operands,
                             std::int64_t dimension, bool stable) {
  if (region.arguments.size() != 2 * operands.size())
    call.refuse("it compares elements other than those that it sorts");
  const std::vector<Key> keys = Comparison(call, region).keys();
  const bool descending = keys[0].descending;
  // Operands that are keys as they are come first; others are made.
  std::vector<Array> all;
  std::vector<std::optional<std::size_t>> at(operands.size());
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const Key& key = keys[k];
    Array x = operands[key.operand];
    if (key.part != Key::Part::kAll) x = key.part == Key::Part::kReal ? ir::lax::real(x) : ir::lax::imag(x);
    const bool is_operand = key.part == Key::Part::kAll && !(key.zeros_differ && is_floating(x.dtype())) &&
                            key.descending == descending;
    if (is_operand && !at[key.operand]) at[key.operand] = k;
    if (key.zeros_differ && is_floating(x.dtype())) x = total_order(x);
    if (key.descending != descending) x = reversed(x);
    all.push_back(x);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (at[i]) continue;
    at[i] = all.size();
    all.push_back(operands[i]);
  }
  const std::vector<Array> sorted = ir::lax::sort(std::span<const Array>(all), dimension,
                                                  static_cast<std::int64_t>(keys.size()), stable, descending);
  std::vector<Array> results;
  for (const auto& place : at) results.push_back(sorted[*place]);
  return results;
}

}  // namespace lockstep::interop
