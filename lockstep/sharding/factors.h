#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/program/sharding_rule.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// An equation of the global program, as the partitioner sees it.
struct RuledEquation {
  const Equation* equation;
  ShardingRule rule;

  /// For each factor, the sizes that its splits must divide; empty where it may not be split.
  std::vector<std::vector<std::int64_t>> sizes;

  /// Axes that split none of its factors: between to_local and to_global the manual ones, and those over
  /// which a value varies. Rising.
  Axes forbidden;

  /// How an operand must be, and a result is, under these axes of the factors.
  Layout operand_layout(std::size_t i, const std::vector<Axes>& factors) const;
  Layout result_layout(std::size_t i, const std::vector<Axes>& factors) const;
};

/// The program's equations with their rules. What shard_map has made local is a value of each place along the
/// manual axes; along the others it is global, and may be split.
std::vector<RuledEquation> ruled_equations(const Program& program, const Grid& grid);

/// What a device receives of operand i within the equation, under these axes of the factors.
struct ReceivedWithin {
  double bytes = 0, collectives = 0;
};
ReceivedWithin received_within(const Program& program, const RuledEquation& ruled, std::size_t i,
                               const std::vector<Axes>& factors, const Grid& grid);

/// What a choice for an equation is made by.
struct ChoiceCosts {
  /// Of bringing operand i to a layout.
  std::function<double(std::size_t i, const Layout& needed)> operand;

  /// Whether the results' splits may still grow, so that more axes than are wanted cost nothing.
  bool results_may_grow = false;
};

/// The axes of each factor, and those of the way that costs the least of the others, if there is one.
struct Choice {
  std::vector<Axes> factors;
  std::optional<std::vector<Axes>> other;
};

/// Chooses the axes of each factor. `splits` are those wanted of the program's variables; the equation's
/// operands and results name the candidates. An axis that only one factor can use is used; where several want
/// one, the way of the lowest cost wins, so that the larger operand stays where it is.
Choice choose_factors(const Program& program, const RuledEquation& ruled, const std::vector<Split>& splits,
                      const Grid& grid, const ChoiceCosts& costs);

}  // namespace lockstep::sharding
