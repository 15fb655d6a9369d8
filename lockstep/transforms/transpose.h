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
  Transposition(ir::Builder& builder, const ir::Program& program, const std::vector<bool>& linear_inputs,
                std::span<const ir::Value> known);

  bool linear(ir::Var var) const { return is_linear_[static_cast<std::size_t>(var)]; }

  /// The value of a variable that is not linear.
  const ir::Value& value(ir::Var var) const { return env_[var]; }

  /// Goes backwards through the linear equations: from the cotangents of the outputs to those of the linear
  /// inputs, in order; an unset one is zero. A cotangent has the aval of its value, except for the weak type.
  /// The cotangents of inputs that are flagged in `partial`, if it is given, may vary over more axes, over
  /// which they must then be summed.
  ir::Tangents run(std::span<const std::optional<ir::Value>> cotangents,
                   const std::vector<bool>& partial = {});

 private:
  /// The cotangent of a value so far: a sum, and the part that must still be summed over the devices.
  struct Cotangent {
    std::optional<ir::Value> sum, partial;
    CallSite site;  ///< of the partial part
  };

  bool linear(const ir::Equation& equation) const;
  bool waits(const ir::Equation& equation) const;
  void add(ir::Var var, const ir::Value& cotangent);
  std::optional<ir::Value> settled(ir::Var var);
  void transpose(const ir::Equation& equation);

  ir::Builder& builder_;
  const ir::Program& program_;
  std::vector<bool> linear_inputs_, is_linear_;
  Bindings env_;
  std::vector<Cotangent> cotangents_;
};

}  // namespace lockstep::transforms
