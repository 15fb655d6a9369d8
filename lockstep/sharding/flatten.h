// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/uses.h"

namespace lockstep::sharding {

/// The origins of the equations of a flat program.
struct FlatBody {
  struct Step;
  std::string name;
  std::vector<ir::Var> inputs, outputs;
  std::vector<Step> steps;
};
struct FlatBody::Step {
  /// The position among the flat program's equations; not used for an equation that contains programs.
  std::size_t place = 0;
  std::unique_ptr<ir::Equation> nested;  ///< set for an equation that contains programs; refers to variables
                                         ///< of the flat program
  std::vector<FlatBody> bodies;          ///< the programs of this equation
};

/// A program and the programs inside its equations as one flat program with one set of variables, for the
/// propagation of splits. An equation that contains programs is replaced by their equations, and by one
/// equation for each value passed into or out of them, which has only a sharding rule: the value itself, an
/// element of it, or a stack of many.
struct FlatProgram {
  ir::Program program;
  FlatBody body;

  /// For each equation, the equation that it was copied from; null for passed values.
  std::vector<const ir::Equation*> origins;

  /// Outputs of programs that decide what runs: they are used, although no equation here has them.
  std::vector<ir::Var> deciding;

  ir::Uses uses() const { return ir::Uses(program, deciding); }
};

FlatProgram flatten(const ir::Program& program);

}  // namespace lockstep::sharding
