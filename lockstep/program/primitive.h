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

namespace lockstep {

class Lowering;

/// What JVP rules are given: the values of the operands and results, and the operands' tangents (none where
/// zero).
struct JvpCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const std::optional<Value>> tangents;
  std::span<const Value> outputs;
};

/// An operand as a transpose rule sees it: linear in what is differentiated, or known.
struct TransposeOperand {
  Aval aval;
  std::optional<Value> value;  ///< none exactly if the operation is linear in this operand
  bool linear() const { return !value.has_value(); }
};

/// What transpose rules are given: the cotangents of the results (none where zero; at least one is there) and
/// the operands. `builder` is where the rule's equations go.
struct TransposeCall {
  const OpParams& params;
  std::span<const std::optional<Value>> cotangents;
  std::span<const TransposeOperand> operands;
  std::span<const Aval> results;
  Builder& builder;
};

/// What vmap maps over.
struct MappedAxis {
  std::int64_t size;  ///< the number of examples

  /// By which collectives reach the other examples; empty where they cannot.
  std::string name = {};

  /// The mesh axes over which the examples are split where a placement says how they lie; where there are
  /// none that is left to the partitioner.
  std::vector<std::string> spmd_axes = {};

  /// Those of them, sorted, along which devices have other examples: under shard_map, `size` each.
  std::vector<std::string> varying = {};
};

/// What batching rules are given. A batched operand has the mapped dimension, of `size`, in front; the others
/// are as they were. At least one operand is batched, but for equations whose programs have a collective over
/// the examples. Every result that the rule gives has the mapped dimension in front.
struct BatchCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const bool> batched;
  std::int64_t size;  ///< axis.size
  const MappedAxis& axis;
  Builder& builder;
};

using Tangents = std::vector<std::optional<Value>>;

/// Derivative, forwards, of an operation: a function from JvpCall to the results' tangents, or zero_tangents.
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

  /// Tangents end here.
  bool is_zero() const { return is_zero_; }

  /// Whether there is a rule.
  explicit operator bool() const { return is_zero_ || rule_; }

 private:
  std::function<Tangents(const JvpCall&)> rule_;
  bool is_zero_ = false;
};

/// JVP of an operation whose derivative is zero or does not exist: integers, comparisons.
inline constexpr JvpRule::Zero zero_tangents;

/// What a program gives, and the tangents of that: none where zero.
struct JvpValues {
  std::vector<Value> outputs;
  Tangents tangents;
};

/// What a program gives for many examples; whether each output has the mapped dimension, in front.
struct VmapValues {
  std::vector<Value> outputs;
  std::vector<bool> batched;
};

/// A program that an equation holds.
struct NestedProgram {
  std::shared_ptr<const Program> program;

  /// How often it runs each time that the equation does; none where values decide.
  std::optional<std::int64_t> times = 1;

  /// It is one of several of which one runs.
  bool alternative = false;
};

/// A way of values between an equation and the programs it holds: of the equation's operand `from`, where
/// from_program is kEquation, or of output `from` of a program; to the equation's result `to`, or to input
/// `to` of a program. An output that goes to an input is a loop's carry: it has the aval of that input.
struct NestedLink {
  static constexpr int kEquation = -1;
  enum class Kind : std::uint8_t {
    kSame,   ///< the value itself
    kSlice,  ///< of an operand, one element of its leading dimension at a time
    kStack   ///< of an output, all of them along a new leading dimension of the result
  };
  int from_program;
  std::size_t from;
  int to_program;
  std::size_t to;
  Kind kind = Kind::kSame;
};

/// An equation without what nobody needs.
struct PrunedEquation {
  OpParams params;
  std::vector<bool> operands, results;  ///< which stay
};

struct NestedJvpCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const std::optional<Value>> tangents;  ///< at least one is there
  Builder& builder;

  /// The tangents are to be made by equations whose results are all linear in the tangents: what they need of
  /// the values comes to them as further operands. Else one equation may do both, and keep less.
  bool linearize;
};

/// The rules of a primitive whose parameters hold programs, beside or in place of the common ones.
struct NestedRules {
  std::function<std::vector<NestedProgram>(const OpParams&)> programs;
  std::function<std::vector<NestedLink>(const OpParams&)> links;

  /// The parameters with these programs in place of theirs.
  std::function<OpParams(const OpParams&, std::vector<std::shared_ptr<const Program>>)> with_programs;

  /// Results and tangents, in place of `Primitive::jvp`.
  std::function<JvpValues(const NestedJvpCall&)> jvp;

  /// In place of `Primitive::batching`; results may be the same for all examples.
  std::function<VmapValues(const BatchCall&)> batching;

  /// Where only some results are used.
  std::function<PrunedEquation(const OpParams&, const std::vector<bool>& used)> prune;

  /// The programs that stand in for the others where the equation is differentiated: a rule of the user's.
  /// They never run as they are, and no link names them. Not set where there are none. With one, every
  /// inexact result has a tangent where any operand has, whatever becomes of it in the other programs.
  std::function<std::vector<std::shared_ptr<const Program>>(const OpParams&)> own_derivative = nullptr;
};

/// What goes between devices.
struct Exchange {
  std::string_view kind;          ///< "all-reduce"; empty where no data does
  std::vector<std::string> axes;  ///< along which; none: it is not between devices
  bool in_groups = false;         ///< among groups of their places along the axes
};

/// What zeros do to an operation that stand behind an operand's last element in a dimension that is in no
/// result.
enum class ZeroPadding : std::uint8_t {
  kUnsaid,
  kAddsNothing,  ///< the results are as without them
  kCounts,
};

/// In which operands an operation is linear.
struct Linear {
  /// In those of each list together, the others being as they are: of their sums it gives the sum of what it
  /// gives of each. An empty list is all of them.
  std::vector<std::vector<std::size_t>> together = {};

  /// Each element of the results is one of these operands', so that the same holds for products, and for what
  /// is the largest or the smallest.
  bool moves = false;
};

/// All that the system knows of one operation. A rule that does not apply is written as such, by one of the
/// named rules below; none is left empty. A test walks all_primitives() (registry.h) and holds this.
struct Primitive {
  std::string name;

  /// Shape and dtype rule: the results' avals. Throws ShapeError or DTypeError; whoever calls it adds the
  /// operands and the user's line.
  std::function<std::vector<Aval>(std::span<const Aval> inputs, const OpParams& params)> shape;

  /// Sharding rule: how the dimensions of operands and results hang together (sharding_rule.h).
  std::function<ShardingRule(std::span<const Aval> inputs, std::span<const Aval> outputs,
                             const OpParams& params)>
      sharding;

  /// Derivative, forwards: the results' tangents, linear in the operands' tangents.
  JvpRule jvp;

  /// Transpose of the operation in its linear operands: their cotangents, one entry for each operand (none
  /// for operands that are not linear, or where zero). One that varies over axes over which its operand does
  /// not is taken to be added up over these.
  std::function<Tangents(const TransposeCall&)> transpose;

  /// Batching rule.
  std::function<std::vector<Value>(const BatchCall&)> batching;

  /// How many arithmetic operations it takes (cost.h).
  std::function<double(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&)> flops;

  ZeroPadding zero_padding = ZeroPadding::kUnsaid;

  /// What of it goes between devices.
  std::function<Exchange(const OpParams&)> exchange;

  /// Writes the operation as StableHLO and gives the names of its results.
  std::function<std::vector<std::string>(Lowering&, const Equation&)> lower;

  /// Its rule gives `varying` itself (collectives do); for all others the results vary over what the operands
  /// do.
  bool sets_varying = false;

  /// It does something besides giving results: it is never dropped, and runs in program order.
  bool has_effect = false;

  /// Set where the parameters hold programs.
  std::optional<NestedRules> nested = std::nullopt;

  /// What is still to be put together of these operands may be so of the results. None where that is not so,
  /// or of no use.
  Linear linear = {};
};

/// The programs that an equation holds; none for most.
std::vector<NestedProgram> programs_of(const Equation& equation);

/// Whether the equation, or one in a program that it holds, has an effect.
bool has_effect(const Equation& equation);

/// Calls `visit` for each equation of the program, and of the programs that it holds.
void for_each_equation(const Program& program, const std::function<void(const Equation&)>& visit);

/// Transpose of an operation that is linear in none of its operands; it is never called, and throws if it is.
Tangents not_linear(const TransposeCall& call);

/// Of an operation that only moves data; of one for each element of the results, of the first operand. Of a
/// primitive with NestedRules its programs count, and `flops_of_programs` is never called: it throws if it
/// is.
double no_flops(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_results(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_operand(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);
double flops_of_programs(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params);

/// Of an operation that each device does by itself.
Exchange no_exchange(const OpParams& params);

/// JVP and batching of a primitive whose NestedRules do it; they are never called, and throw if they are.
Tangents nested_jvp(const JvpCall& call);
std::vector<Value> nested_batching(const BatchCall& call);

}  // namespace lockstep
