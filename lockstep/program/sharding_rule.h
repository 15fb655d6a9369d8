// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/program/aval.h"
#include "lockstep/program/op_params.h"
#include "lockstep/program/part_windows.h"

namespace lockstep::ir {

class Value;

struct PartPlaces;

/// How the dimensions of an operation's operands and results correspond, as in einsum: each dimension has a
/// factor, and a factor may be split over mesh axes. `[i,k],[k,j]->[i,j]` is a matrix product.
struct ShardingRule {
  /// A dimension that each device must have as a whole.
  static constexpr int kWhole = -1;

  /// How the devices' partial results are reduced if a factor that only operands have is split.
  enum class Combine : std::uint8_t { kNone, kSum, kProduct, kMax, kMin };

  struct Factor {
    std::int64_t size = 0;             ///< a split must divide it
    Combine combine = Combine::kNone;  ///< for a factor that only operands have; all of a rule have the same
                                       ///< kind

    /// Set if a device needs elements of others when the factor is split; `write` gets them. Returns what a
    /// device receives along the dimension of an operand with this factor, for this number of parts.
    std::function<Exchanged(std::size_t operand, std::int64_t parts)> exchanged = nullptr;

    /// The axes that split it may split another dimension of the operand instead, as for a dimension that
    /// must be whole.
    bool may_move = false;

    /// Only operands have it, and `write` returns the complete results on each device.
    bool is_completed = false;
  };

  std::vector<Factor> factors;
  std::vector<std::vector<int>> operands;  ///< for each operand, each dimension's factor or kWhole
  std::vector<std::vector<int>> results;   ///< the same for each result

  /// Operands that count once in the results, such as the array to which a scatter adds: if the results are
  /// partial, these must be partial, too.
  std::vector<std::size_t> addends = {};

  /// The parameters of the operation on one device's part. Empty if they do not depend on shapes.
  std::function<OpParams(const OpParams&, const std::vector<Shape>& local_operands,
                         const std::vector<Shape>& local_results)>
      localize = nullptr;

  /// Writes the computation of one device, instead of the operation with those parameters, if it depends on
  /// the device's position or needs elements of others. Empty otherwise.
  std::function<std::vector<Value>(const OpParams& local, std::span<const Value> operands,
                                   const PartPlaces& places)>
      write = nullptr;

  /// "[i,k],[k,j]->[i,j]"; "*" for kWhole.
  std::string to_string() const;

  /// All dimensions are whole: every device computes the operation on whole operands.
  static ShardingRule replicated(std::span<const Aval> inputs, std::span<const Aval> outputs);

  /// All operands and results have one shape, and each element only depends on the operands' elements at its
  /// position; operands of rank 0 among others are whole.
  static ShardingRule elementwise(std::span<const Aval> inputs, std::span<const Aval> outputs);
};

/// The information about the device's position for a rule's `write`, and functions to get data from other
/// devices. Factors are numbers of the rule's factors.
struct PartPlaces {
  std::function<bool(int factor)> is_split;

  /// num_parts: the number of parts of a factor that is split. number: the index of the device's part, a
  /// scalar.
  std::function<std::int64_t(int factor)> num_parts;
  std::function<Value(int factor, DType dtype)> number;

  /// The position of the first element of the device's part, a scalar.
  std::function<Value(int factor, DType dtype)> start;

  /// The window that the device needs of a dimension that the factor splits, of which it has `part`.
  /// Positions outside of the dimension hold `fill`, a scalar, or any value if it is not set.
  std::function<Value(const Value& part, std::size_t dimension, int factor, const PartWindows& windows,
                      const std::optional<Value>& fill)>
      window;

  /// The x of another device. A pair is (from, to), by the numbers of the parts. Zeros where no device sends.
  std::function<Value(const Value& x, int factor, std::vector<std::pair<int, int>> pairs)> permute;

  /// x is split along one dimension into a part for each device, and what a device receives is concatenated
  /// along another one.
  std::function<Value(const Value& x, std::size_t split_dimension, std::size_t concat_dimension, int factor)>
      all_to_all;

  /// all_gather: the devices' values, concatenated. all_reduce: the devices' values, reduced.
  std::function<Value(const Value& x, std::size_t dimension, int factor)> all_gather;
  std::function<Value(const Value& x, ShardingRule::Combine combine, int factor)> all_reduce;
};

}  // namespace lockstep::ir
