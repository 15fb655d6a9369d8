#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
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

/// What batching rules are given. A batched operand has the mapped dimension, of `size`, in front; the others
/// are as they were. At least one operand is batched. Every result that the rule gives has the mapped
/// dimension in front.
struct BatchCall {
  const OpParams& params;
  std::span<const Value> inputs;
  std::span<const bool> batched;
  std::int64_t size;
  Builder& builder;
};

using Tangents = std::vector<std::optional<Value>>;

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
  std::function<Tangents(const JvpCall&)> jvp;

  /// Transpose of the operation in its linear operands: their cotangents, one entry for each operand (none
  /// for operands that are not linear, or where zero).
  std::function<Tangents(const TransposeCall&)> transpose;

  /// Batching rule.
  std::function<std::vector<Value>(const BatchCall&)> batching;

  /// Writes the operation as StableHLO and gives the names of its results.
  std::function<std::vector<std::string>(Lowering&, const Equation&)> lower;

  /// Its rule gives `varying` itself (collectives do); for all others the results vary over what the operands
  /// do.
  bool sets_varying = false;
};

/// JVP of an operation whose derivative is zero or does not exist: integers, comparisons.
Tangents zero_tangents(const JvpCall& call);

/// Transpose of an operation that is linear in none of its operands; it is never called, and throws if it is.
Tangents not_linear(const TransposeCall& call);

}  // namespace lockstep
