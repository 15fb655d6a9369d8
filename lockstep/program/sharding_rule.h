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

namespace lockstep {

class Value;

struct PartPlaces;

/// How the dimensions of an operation's operands and results hang together, as in einsum: each dimension is
/// named by a factor, and a factor may be split over mesh axes. `[i,k],[k,j]->[i,j]` is a matrix product.
struct ShardingRule {
  /// A dimension that each device must have whole.
  static constexpr int kWhole = -1;

  /// How the devices' partial results are put together where a factor of operands only is split.
  enum class Combine : std::uint8_t { kNone, kSum, kProduct, kMax, kMin };

  struct Factor {
    std::int64_t size = 0;             ///< a split must divide it
    Combine combine = Combine::kNone;  ///< of a factor that stands in operands only; one kind in a rule

    /// Where it is split, a device needs elements of others, which `write` gets: how many it receives along
    /// the dimension of an operand that has it, in so many parts. Empty where it needs none.
    std::function<Exchanged(std::size_t operand, std::int64_t parts)> exchanged = nullptr;

    /// What splits it may split another dimension of the operand instead, as of one that must be whole.
    bool may_move = false;

    /// It stands in operands only, and `write` gives each device the results of the whole.
    bool is_completed = false;
  };

  std::vector<Factor> factors;
  std::vector<std::vector<int>> operands;  ///< for each operand, each dimension's factor or kWhole
  std::vector<std::vector<int>> results;   ///< the same for each result

  /// Operands that count once in the results, such as what a scatter adds to: where the results are partial,
  /// so must these be.
  std::vector<std::size_t> addends = {};

  /// The parameters of the operation on one device's part. Empty where they do not depend on shapes.
  std::function<OpParams(const OpParams&, const std::vector<Shape>& local_operands,
                         const std::vector<Shape>& local_results)>
      localize = nullptr;

  /// Writes what one device does, in place of the operation with those parameters, where that depends on
  /// which parts it has, or needs others' elements. Empty where it does not.
  std::function<std::vector<Value>(const OpParams& local, std::span<const Value> operands,
                                   const PartPlaces& places)>
      write = nullptr;

  /// "[i,k],[k,j]->[i,j]"; "*" for kWhole.
  std::string to_string() const;

  /// All dimensions whole: the operation is computed by every device, on whole operands.
  static ShardingRule replicated(std::span<const Aval> inputs, std::span<const Aval> outputs);

  /// All operands and results have one shape, and each element depends on its own place only; operands of
  /// rank 0 among others are taken whole.
  static ShardingRule elementwise(std::span<const Aval> inputs, std::span<const Aval> outputs);
};

/// What a rule's `write` knows of the device's place, and how it gets what others have. Factors are the
/// rule's.
struct PartPlaces {
  std::function<bool(int factor)> is_split;

  /// Of a factor that is split, in how many parts, and which of them the device has: a scalar.
  std::function<std::int64_t(int factor)> num_parts;
  std::function<Value(int factor, DType dtype)> number;

  /// The place of the first element of the device's part, a scalar.
  std::function<Value(int factor, DType dtype)> start;

  /// What the device needs of a dimension that the factor splits, of which it has `part`. Places outside of
  /// the dimension hold `fill`, a scalar; anything without one.
  std::function<Value(const Value& part, std::size_t dimension, int factor, const PartWindows& windows,
                      const std::optional<Value>& fill)>
      window;

  /// What another device has of x: a pair is (from, to), by the numbers of the parts. Zeros where none sends.
  std::function<Value(const Value& x, int factor, std::vector<std::pair<int, int>> pairs)> permute;

  /// The devices' values one behind the other; and put together.
  std::function<Value(const Value& x, std::size_t dimension, int factor)> all_gather;
  std::function<Value(const Value& x, ShardingRule::Combine combine, int factor)> all_reduce;
};

}  // namespace lockstep
