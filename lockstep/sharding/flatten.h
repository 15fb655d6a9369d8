#pragma once

#include <memory>
#include <vector>

#include "lockstep/program/program.h"

namespace lockstep::sharding {

/// Where the equations of a flat program came from.
struct FlatBody {
  struct Step;
  std::string name;
  std::vector<Var> inputs, outputs;
  std::vector<Step> steps;
};
struct FlatBody::Step {
  /// The place among the flat program's equations; of one that holds programs, nothing stands there.
  std::size_t place = 0;
  std::unique_ptr<Equation> nested;  ///< one that holds programs, on variables of the flat program
  std::vector<FlatBody> bodies;      ///< those programs
};

/// A program and the programs within it as one, over one set of variables, for splits to go through. In place
/// of an equation that holds programs stand their equations, and one for each way of a value between it and
/// them, which has a sharding rule only: the same value, an element of it, or many of it stacked.
struct FlatProgram {
  Program program;
  FlatBody body;

  /// Of each of its equations, the one that it is a copy of; none of a way of a value.
  std::vector<const Equation*> origins;
};

FlatProgram flatten(const Program& program);

}  // namespace lockstep::sharding
