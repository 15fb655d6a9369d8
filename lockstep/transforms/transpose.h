#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

/// A program that is linear in some of its inputs, written backwards.
class Transposition {
 public:
  /// Writes the equations that depend on no linear input. `known` are the values of the other inputs, in
  /// order.
  Transposition(Builder& builder, const Program& program, const std::vector<bool>& linear_inputs,
                std::span<const Value> known);

  bool linear(Var var) const { return is_linear_[static_cast<std::size_t>(var)]; }

  /// The value of a variable that is not linear.
  const Value& value(Var var) const { return env_[var]; }

  /// Goes backwards through the linear equations: the cotangents of the linear inputs, in order, for those of
  /// the outputs; none where zero. A cotangent has the aval of its value, but for the weak type.
  Tangents run(std::span<const std::optional<Value>> cotangents);

 private:
  bool linear(const Equation& equation) const;
  void add(Var var, const Value& cotangent);
  void transpose(const Equation& equation);

  Builder& builder_;
  const Program& program_;
  std::vector<bool> linear_inputs_, is_linear_;
  Bindings env_;
  Tangents cotangents_;
};

}  // namespace lockstep::transforms
