#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

/// A program that is linear in some of its inputs, written backwards.
///
/// Under shard_map a value that is the same on all devices has, from where it was taken to differ (pvary),
/// cotangents that differ, to be added up over the devices. That is put off while it can be had for fewer
/// bytes further on: behind a bias that was broadcast to a batch, the batch is added up first.
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
  /// the outputs; none where zero. A cotangent has the aval of its value, but for the weak type; of inputs
  /// that are flagged in `partial`, if that is given, it may vary over more axes, and is then to be added up
  /// over these.
  Tangents run(std::span<const std::optional<Value>> cotangents, const std::vector<bool>& partial = {});

 private:
  /// The cotangent of a value so far: a sum, and what is still to be added up over the devices.
  struct Cotangent {
    std::optional<Value> sum, partial;
    CallSite site;  ///< of the partial one
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
