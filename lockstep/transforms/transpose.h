// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

/// The transpose of a program that is linear in some of its inputs.
///
/// Under shard_map, a value that is the same on all devices is made to vary by pvary; its cotangents differ
/// from there on, and must be summed over the devices. The sum is deferred as long as it can be computed
/// later with fewer bytes: for a bias that was broadcast to a batch, the batch is summed first.
class Transposition {
 public:
  /// Writes the equations that do not depend on linear inputs. `known` are the values of the other inputs, in
  /// order.
  Transposition(Builder& builder, const Program& program, const std::vector<bool>& linear_inputs,
                std::span<const Value> known);

  bool linear(Var var) const { return is_linear_[static_cast<std::size_t>(var)]; }

  /// The value of a variable that is not linear.
  const Value& value(Var var) const { return env_[var]; }

  /// Goes backwards through the linear equations: from the cotangents of the outputs to those of the linear
  /// inputs, in order; an unset one is zero. A cotangent has the aval of its value, except for the weak type.
  /// The cotangents of inputs that are flagged in `partial`, if it is given, may vary over more axes, over
  /// which they must then be summed.
  Tangents run(std::span<const std::optional<Value>> cotangents, const std::vector<bool>& partial = {});

 private:
  /// The cotangent of a value so far: a sum, and the part that must still be summed over the devices.
  struct Cotangent {
    std::optional<Value> sum, partial;
    CallSite site;  ///< of the partial part
  };

  bool linear(const Equation& equation) const;
  bool waits(const Equation& equation) const;
  void add(Var var, const Value& cotangent);
  std::optional<Value> settled(Var var);
  void transpose(const Equation& equation);

  Builder& builder_;
  const Program& program_;
  std::vector<bool> linear_inputs_, is_linear_;
  Bindings env_;
  std::vector<Cotangent> cotangents_;
};

}  // namespace lockstep::transforms
