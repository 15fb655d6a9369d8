// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>

#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/flatten.h"
#include "lockstep/sharding/split.h"

/// Slices, pads and concatenations whose result has a size that the devices do not divide: the result gets
/// some extra elements at the end, so that each device can compute its part.
namespace lockstep::sharding {

struct UnevenResults {
  /// The extended shapes of equations' results.
  std::map<const ir::Equation*, Shape> shapes;

  /// Slices that are only used by concatenations in `shapes` and are computed as a part of them, and pads
  /// that are only used by slices in `of_pads` and are computed as a part of these.
  std::set<const ir::Equation*> within;

  /// Slices of a pad, which become one pad.
  std::map<const ir::Equation*, const ir::Equation*> of_pads;
};

/// Equations of the original program whose operand is split, according to these splits, in a dimension in
/// which the result cannot be split evenly; and concatenations of such slices, as in a roll.
UnevenResults uneven_results(const FlatProgram& flat, const std::vector<Split>& splits, const Grid& grid);

/// An operand that may have extra elements, with any values, after its last ones.
struct PaddedOperand {
  ir::Value value;
  const Shape& shape;

  /// For an operand of a concatenation: the number of elements at its start that do not belong to it.
  std::int64_t skipped = 0;
};

/// Whether the equation takes a contiguous part of one dimension.
bool is_slice_along(const ir::Equation& equation, const Shape& operand, std::size_t dimension);

/// The pad that is equivalent to a slice of a pad.
ir::PadParams pad_of(const ir::SliceParams& slice, const ir::PadParams& pad, const Shape& operand);

/// Whether the equation can have extra elements in its result.
bool can_resize(const ir::Equation& equation);

/// The shape of a result that has no entry in UnevenResults but whose operands are extended: theirs, if most
/// of it is useful. nullopt if the result keeps its shape.
std::optional<Shape> resized_shape(const ir::Equation& equation, std::span<const PaddedOperand> operands,
                                   const Shape& shape);

/// The result of the equation with shape `to`; extra elements at the end have any values.
ir::Value resized(const ir::Equation& equation, std::span<const PaddedOperand> operands, const Shape& shape,
                  const Shape& to);

}  // namespace lockstep::sharding
