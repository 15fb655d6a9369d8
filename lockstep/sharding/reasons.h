// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/split.h"

/// The texts that explain why the partitioner moves data: CommunicationLine::reason.
namespace lockstep::sharding {

/// "operand 0 of dot_general, f32[8,16], goes from P('data') to P()".
std::string move_text(std::string_view what, const Aval& aval, const Layout& from, const Split& to,
                      const Grid& grid);

/// "P('data')", "P(), still partial over data,".
std::string layout_text(const Layout& layout, const Grid& grid);

/// How an operand comes to the layout that an equation needs.
struct Bringing {
  Layout from;  ///< in which it is there

  /// A move, and the bytes that a device receives in it.
  struct Move {
    std::string what;
    double bytes = 0;
    bool operator==(const Move&) const = default;
  };

  /// Set if the operand is not moved, but computed again: the moves for that.
  std::optional<std::vector<Move>> moves_again = {};
};

/// One equation and the choice made for it.
struct ChosenEquation {
  const ir::Program& program;
  const Grid& grid;
  const RuledEquation& ruled;
  const Choice& choice;
  const std::vector<Split>& wanted;  ///< the wanted splits of the program's variables

  /// The alternatives that were not chosen, if there were any, with the bytes that a device would receive in
  /// each case. Set by compare.
  std::string other_way = {};

  /// Sets other_way. Call this before any operand is converted.
  void compare(const std::function<Bringing(std::size_t operand, const Layout& needed)>& bringing);

  /// Why operand i changes its split: the operation needs a whole dimension, or the alternative is more
  /// expensive.
  std::string reason_of_operand(std::size_t i, const Layout& from) const;

  /// Why devices exchange elements within the operation.
  std::string reason_of_exchange() const;

  /// Why the devices' parts of result i are reduced over these axes.
  std::string reason_of_result(std::size_t i, const Axes& axes) const;
};

}  // namespace lockstep::sharding
