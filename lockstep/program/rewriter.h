// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::ir {

/// Writes a program anew for a pass. In the order of the new program, the pass keeps equations of the old one
/// and adds others, and says which values replace variables; what it does not keep is left out. Inputs and
/// outputs correspond to the old program's. The new program has only the variables that it defines.
class Rewriter {
 public:
  /// The new program, or none if it would be the same.
  using Pass = std::function<std::optional<Program>(const Program&)>;

  /// The program must outlive this. `within`, if given, is the pass for the programs that kept equations
  /// hold, such as a loop's body.
  explicit Rewriter(const Program& program, Pass within = nullptr);

  /// Writes an equation of the program, over what stands for its inputs now.
  void keep(std::size_t equation);

  /// Writes this instead of an equation of the program: it uses and defines the program's variables.
  void keep_as(const Equation& equation);

  /// Writes a new equation, with these operands, and the result's aval.
  Value add(Equation equation, std::span<const Value> inputs, Aval result);

  /// Later equations and the outputs use the value for this variable.
  void replace(Var var, const Value& value);

  /// What stands for the variable now. Fails if nothing has been written for it.
  Value operator[](Var var);

  /// For further equations of the new program.
  Builder& builder();

  /// The new program; none if all equations were kept in order, and nothing else was done. Nothing must be
  /// done afterwards.
  std::optional<Program> finish();

 private:
  void begin();
  std::vector<Value> values(std::span<const Var> vars);

  const Program& program_;
  const Pass within_;
  std::size_t num_same_ = 0;  // how many equations were kept in order: not written before there is a change
  bool is_begun_ = false;
  Builder builder_;
  std::vector<std::optional<Value>> values_;  // of each variable of the program
};

/// The program that the pass returns, or else the given one.
Program rewritten(Program program, const Rewriter::Pass& pass);

}  // namespace lockstep::ir
