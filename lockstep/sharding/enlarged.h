// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/flatten.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// A way to compute a value again in another split: the axes of its equation's factors, and the cost of
/// moving what the equation needs.
struct ComputedAgain {
  std::vector<Axes> factors;
  double cost = 0;
};

/// The values that are made from no more data than they have, often from much less: broadcasts, conversions
/// to wider types, numbered positions, elements gathered from a small table, and what is computed from such
/// values element by element. Instead of such a value, what it is made from can be moved, and the value
/// computed again.
class EnlargedValues {
 public:
  /// Keeps pointers to the equations.
  EnlargedValues(const FlatProgram& flat, std::span<const RuledEquation> equations, const Grid& grid);

  /// The equation that makes the value; null for a value that must be moved itself.
  const RuledEquation* maker(ir::Var var) const { return makers_[static_cast<std::size_t>(var)]; }

  /// The cost of moving a value itself to a layout.
  using Moving = std::function<double(ir::Var var, const Layout& to)>;

  /// How the value can be computed again in this split, if that costs less than `limit`.
  std::optional<ComputedAgain> again(ir::Var var, const Split& to, double limit, const Moving& moving) const;

 private:
  class Search;

  const ir::Program& program_;
  const Grid& grid_;
  std::vector<const RuledEquation*> makers_;
};

}  // namespace lockstep::sharding
