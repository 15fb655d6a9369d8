#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/program/program.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/split.h"

/// The words for why the partitioner moves what it moves: CommunicationLine::reason.
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
  const std::vector<Split>& wanted;  ///< of the program's variables

  /// The way not taken, if there was one, with the bytes that a device would receive in it and in this one.
  /// Set by compare.
  std::string other_way = {};

  /// `from` tells what an operand would be brought from. To be called before any is.
  void compare(const std::function<Layout(std::size_t operand, const Layout& needed)>& from);

  /// Why operand i goes from a split to the one that it has in the choice: a dimension that the operation
  /// takes whole, or the way not taken.
  std::string reason_of_operand(std::size_t i, const Layout& from) const;

  /// Why devices exchange elements within the operation.
  std::string reason_of_exchange() const;

  /// Why the devices' parts of result i are put together over these axes.
  std::string reason_of_result(std::size_t i, const Axes& axes) const;
};

}  // namespace lockstep::sharding
