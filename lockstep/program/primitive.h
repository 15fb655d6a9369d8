// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"

namespace lockstep::ir {

class Lowering;

/// The input of JVP rules: the values of the operands and results, and the operands' tangents (unset if
/// zero).
struct JvpCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const std::optional<Value>> tangents;
  std::span<const Value> outputs;
};

/// An operand of a transpose rule: the operation is either linear in it, or its value is known.
struct TransposeOperand {
  Aval aval;
  std::optional<Value> value;  ///< unset if and only if the operation is linear in this operand
  bool linear() const { return !value.has_value(); }
};

/// The input of transpose rules: the cotangents of the results (unset if zero; at least one is set) and the
/// operands. The rule's equations are written to `builder`.
struct TransposeCall {
  const OpParams& params;
  std::span<const std::optional<Value>> cotangents;
  std::span<const TransposeOperand> operands;
  std::span<const Aval> results;
  Builder& builder;
};

/// The axis over which vmap maps.
struct MappedAxis {
  std::int64_t size;  ///< the number of examples

  /// The name for collectives between the examples; empty if there is none.
  std::string name = {};

  /// The mesh axes over which the examples are split where a placement describes the sharding of one example;
  /// if empty, this is left to the partitioner.
  std::vector<std::string> spmd_axes = {};

  /// The sorted `spmd_axes` along which devices differ in examples: under shard_map, each has `size`.
  std::vector<std::string> varying = {};
};

/// The input of batching rules. A batched operand has the mapped dimension, of size `size`, first; other
/// operands are unchanged. At least one operand is batched, except for equations whose programs have a
/// collective over the examples. Every result of the rule must have the mapped dimension first.
struct BatchCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const bool> batched;
  std::int64_t size;  ///< axis.size
  const MappedAxis& axis;
  Builder& builder;
};

using Tangents = std::vector<std::optional<Value>>;

/// The forward derivative of an operation: a function from JvpCall to the results' tangents, or
/// zero_tangents.
class JvpRule {
 public:
  struct Zero {};

  JvpRule(Zero) : is_zero_(true) {}
  template <class Rule>
  requires std::is_invocable_r_v<Tangents, const Rule&, const JvpCall&> JvpRule(Rule rule)
      : rule_(std::move(rule)) {}

  Tangents operator()(const JvpCall& call) const {
    return is_zero_ ? Tangents(call.outputs.size()) : rule_(call);
  }

  /// The derivative is zero.
  bool is_zero() const { return is_zero_; }

  /// Whether there is a rule.
  explicit operator bool() const { return is_zero_ || rule_; }

 private:
  std::function<Tangents(const JvpCall&)> rule_;
  bool is_zero_ = false;
};

/// The JVP of an operation whose derivative is zero or does not exist: integers, comparisons.
inline constexpr JvpRule::Zero zero_tangents;

/// The results of a program and their tangents, which are unset if zero.
struct JvpValues {
  std::vector<Value> outputs;
  Tangents tangents;
};

/// The results of a program for many examples, and whether each of them has the mapped dimension first.
struct VmapValues {
  std::vector<Value> outputs;
  std::vector<bool> batched;
};

/// A program inside an equation.
struct NestedProgram {
  std::shared_ptr<const Program> program;

  /// How often it runs each time that the equation does; nullopt if that depends on values.
  std::optional<std::int64_t> times = 1;

  /// It is one of several programs of which one runs.
  bool alternative = false;
};

/// How a value is passed between an equation and its programs: from the equation's operand `from` (if
/// from_program is kEquation), or from output `from` of a program, to the equation's result `to` or to input
/// `to` of a program. If an output is passed to an input, it is a loop's carry, and has the aval of that
/// input.
struct NestedLink {
  static constexpr int kEquation = -1;
  enum class Kind : std::uint8_t {
    kSame,   ///< the value itself
    kSlice,  ///< one element of an operand's first dimension at a time
    kStack   ///< all values of an output, stacked along a new first dimension of the result
  };
  int from_program;
  std::size_t from;
  int to_program;
  std::size_t to;
  Kind kind = Kind::kSame;
};

/// An equation without the parts that are not needed.
struct PrunedEquation {
  OpParams params;
  std::vector<bool> operands, results;  ///< which of them remain
};

struct NestedJvpCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const std::optional<Value>> tangents;  ///< at least one is set
  Builder& builder;

  /// The tangents must be computed by equations whose results are all linear in the tangents; values that
  /// these need become operands. If false, an equation may compute both, and keep less.
  bool linearize;
};

/// The rules of a primitive whose parameters contain programs, in addition to or instead of the common rules.
struct NestedRules {
  std::function<std::vector<NestedProgram>(const OpParams&)> programs;
  std::function<std::vector<NestedLink>(const OpParams&)> links;

  /// The parameters with these programs instead of theirs.
  std::function<OpParams(const OpParams&, std::vector<std::shared_ptr<const Program>>)> with_programs;

  /// Results and tangents; used instead of `Primitive::jvp`.
  std::function<JvpValues(const NestedJvpCall&)> jvp;

  /// Used instead of `Primitive::batching`; results may be the same for all examples.
  std::function<VmapValues(const BatchCall&)> batching;

  /// Removes what is not needed if only some results are used.
  std::function<PrunedEquation(const OpParams&, const std::vector<bool>& used)> prune;

  /// The programs of a user-defined derivative, which replace the others when the equation is differentiated.
  /// They never run otherwise, and no link refers to them. Not set if there are none. With such a program,
  /// every inexact result has a tangent if any operand has one.
  std::function<std::vector<std::shared_ptr<const Program>>(const OpParams&)> own_derivative = nullptr;
};

/// A communication between devices.
struct Exchange {
  std::string_view kind;          ///< "all-reduce"; empty if no data is exchanged
  std::vector<std::string> axes;  ///< the axes along which data is exchanged; none: not between devices
  bool in_groups = false;         ///< separately within groups of positions along the axes
};

/// The effect on an operation of zeros after an operand's last element, in a dimension that no result has.
enum class ZeroPadding : std::uint8_t {
  kUnsaid,
  kAddsNothing,  ///< the results are unchanged
  kCounts,
};

/// The operands in which an operation is linear.
struct Linear {
  /// The operation is linear in the operands of each list together, for fixed other operands: applied to sums
  /// it returns the sum of its results. An empty list means all operands.
  std::vector<std::vector<std::size_t>> together = {};

  /// Each element of the results is an element of these operands, so that the same holds for products, maxima
  /// and minima.
  bool moves = false;
};

/// Everything that the system knows about one operation. A rule that does not apply is set to one of the
/// named rules below; none is left empty. A test iterates over all_primitives() (registry.h) and checks this.
struct Primitive {
  std::string name;

  /// The shape and dtype rule: returns the results' avals. Throws ShapeError or DTypeError; the caller adds
  /// the operands and the user's line to the message.
  std::function<std::vector<Aval>(std::span<const Aval> inputs, const OpParams& params)> shape;

  /// The sharding rule: how the dimensions of operands and results correspond (sharding_rule.h).
  std::function<ShardingRule(std::span<const Aval> inputs, std::span<const Aval> outputs,
                             const OpParams& params)>
      sharding;

  /// The forward derivative: the results' tangents, linear in the operands' tangents.
  JvpRule jvp;

  /// The transpose of the operation in its linear operands: their cotangents, one entry for each operand
  /// (unset for operands that are not linear, or if zero). A cotangent that varies over axes over which its
  /// operand does not vary stands for its sum over these axes.
  std::function<Tangents(const TransposeCall&)> transpose;

  /// Batching rule.
  std::function<std::vector<Value>(const BatchCall&)> batching;

  /// The number of arithmetic operations (cost.h).
  std::function<double(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&)> flops;

  ZeroPadding zero_padding = ZeroPadding::kUnsaid;

  /// The data that it exchanges between devices.
  std::function<Exchange(const OpParams&)> exchange;

  /// Writes the operation as StableHLO and returns the names of its results.
  std::function<std::vector<std::string>(Lowering&, const Equation&)> lower;

  /// Its shape rule sets `varying` itself (for collectives); the results of all others vary over the axes of
  /// the operands.
  bool sets_varying = false;

  /// Each element of the only result is computed from the elements of the operands at the same place.
  bool by_element = false;

  /// It has an effect besides its results: it is never removed, and runs in program order.
  bool has_effect = false;

  /// Set if the parameters contain programs.
  std::optional<NestedRules> nested = std::nullopt;

  /// In these operands a pending reduction may be passed on to the results. Empty if that is impossible or
  /// useless.
  Linear linear = {};
};

/// The programs inside an equation; most equations have none.
std::vector<NestedProgram> programs_of(const Equation& equation);

/// Whether the equation, or one in its programs, has an effect.
bool has_effect(const Equation& equation);

/// Calls `visit` for each equation of the program, and of the programs inside its equations.
void for_each_equation(const Program& program, const std::function<void(const Equation&)>& visit);

/// The transpose of an operation that is not linear in any operand. Never called; throws.
Tangents not_linear(const TransposeCall& call);

/// Counts of arithmetic operations: no_flops for operations that only move data, and one for each element of
/// the results or of the first operand. For a primitive with NestedRules the programs are counted;
/// `flops_of_programs` is never called, and throws.
double no_flops(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_results(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_operand(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_programs(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);

/// For an operation without communication.
Exchange no_exchange(const OpParams& params);

/// The JVP and batching of a primitive whose NestedRules define them. Never called; they throw.
Tangents nested_jvp(const JvpCall& call);
std::vector<Value> nested_batching(const BatchCall& call);

}  // namespace lockstep::ir
