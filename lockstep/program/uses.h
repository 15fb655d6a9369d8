// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/program/program.h"

namespace lockstep::ir {

/// The uses of a program's variables: by its equations and as its outputs. An equation that contains programs
/// has as operands everything that any of them uses, so that each of its uses is found here; `uses_within`
/// tells where in the equation a value goes.
class Uses {
 public:
  /// `outputs`: further variables that count as outputs.
  explicit Uses(const Program& program, std::span<const Var> outputs = {});

  /// For each use the place of its equation, in ascending order: an equation that has the variable as two
  /// operands stands there twice. The place of an output is behind all equations.
  std::span<const std::size_t> of(Var var) const {
    const std::size_t* const places = places_.data();
    return {places + first_[static_cast<std::size_t>(var)],
            places + first_[static_cast<std::size_t>(var) + 1]};
  }

  std::size_t count(Var var) const { return of(var).size(); }
  bool is_used(Var var) const { return !of(var).empty(); }
  std::optional<std::size_t> last(Var var) const {
    return is_used(var) ? std::optional(of(var).back()) : std::nullopt;
  }

 private:
  std::vector<std::size_t> first_;  // of each variable, its first place
  std::vector<std::size_t> places_;
};

/// For each variable the equation whose result it is; null for an input.
std::vector<const Equation*> equations_of_variables(const Program& program);

/// Where a value of an equation that contains programs goes, in all of them: operand `i` of the equation
/// (`program` is NestedLink::kEquation), or output `i` of a program. Nowhere: the value decides what runs.
std::vector<NestedLink> uses_within(std::span<const NestedLink> links, int program, std::size_t i);

/// Whether the value decides what runs: a branch's number, a loop's condition.
bool decides(std::span<const NestedLink> links, int program, std::size_t i);

}  // namespace lockstep::ir
