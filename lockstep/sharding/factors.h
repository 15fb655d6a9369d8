// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// Operations that a device does in the time in which it receives a byte: of accelerators some hundreds to
/// thousands by their data sheets, of CPUs in one host about ten. What is computed more than once counts for
/// little, so that bytes decide unless it is much.
inline constexpr double kFlopsPerByte = 1000;

/// An equation of the global program with its sharding rule.
struct RuledEquation {
  const ir::Equation* equation;
  ir::ShardingRule rule;

  /// For each factor, the sizes that its splits must divide; empty if it must not be split.
  std::vector<std::vector<std::int64_t>> sizes;

  /// Axes that must not split any factor: between to_local and to_global the manual ones, and those over
  /// which a value varies. Ascending.
  Axes forbidden;

  /// The layout that an operand needs, or that a result has, with these axes of the factors.
  Layout operand_layout(std::size_t i, const std::vector<Axes>& factors) const;
  Layout result_layout(std::size_t i, const std::vector<Axes>& factors) const;
};

/// The program's equations with their rules. Values that shard_map has made local exist once at each position
/// along the manual axes; along the other axes they are global and may be split.
std::vector<RuledEquation> ruled_equations(const ir::Program& program, const Grid& grid);

/// The data that a device receives for operand i within the equation, with these axes of the factors.
struct ReceivedWithin {
  double bytes = 0, collectives = 0;
};
ReceivedWithin received_within(const ir::Program& program, const RuledEquation& ruled, std::size_t i,
                               const std::vector<Axes>& factors, const Grid& grid);

/// The costs by which a choice is made.
struct ChoiceCosts {
  /// The cost of converting operand i to a layout.
  std::function<double(std::size_t i, const Layout& needed)> operand;

  /// Whether the results' splits may still grow, so that using more axes than wanted is free.
  bool results_may_grow = false;
};

/// The axes of each factor, and those of the cheapest alternative, if there is one.
struct Choice {
  std::vector<Axes> factors;
  std::optional<std::vector<Axes>> other;
};

/// Chooses the axes of each factor. The candidates are the wanted splits (`splits`) of the equation's
/// operands and results. An axis that only one factor can use is used. If several factors could use it, the
/// cheapest assignment wins; so the larger operand is not moved.
Choice choose_factors(const ir::Program& program, const RuledEquation& ruled,
                      const std::vector<Split>& splits, const Grid& grid, const ChoiceCosts& costs);

}  // namespace lockstep::sharding
