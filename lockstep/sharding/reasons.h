// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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

/// One equation and the choice made for it.
struct ChosenEquation {
  const Program& program;
  const Grid& grid;
  const RuledEquation& ruled;
  const Choice& choice;
  const std::vector<Split>& wanted;  ///< the wanted splits of the program's variables

  /// The alternative that was not chosen, if there was one, with the bytes that a device would receive in
  /// both cases. Set by compare.
  std::string other_way = {};

  /// Sets other_way. `from` returns the layout from which an operand would be converted. Call this before any
  /// operand is converted.
  void compare(const std::function<Layout(std::size_t operand, const Layout& needed)>& from);

  /// Why operand i changes its split: the operation needs a whole dimension, or the alternative is more
  /// expensive.
  std::string reason_of_operand(std::size_t i, const Layout& from) const;

  /// Why devices exchange elements within the operation.
  std::string reason_of_exchange() const;

  /// Why the devices' parts of result i are reduced over these axes.
  std::string reason_of_result(std::size_t i, const Axes& axes) const;
};

}  // namespace lockstep::sharding
