#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>

#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/flatten.h"
#include "lockstep/sharding/split.h"

/// Slices, pads and concatenations whose result has a size that the devices do not divide: they are given
/// some elements more behind the last, so that each device computes its part.
namespace lockstep::sharding {

struct UnevenResults {
  /// The shapes that results of equations get.
  std::map<const Equation*, Shape> shapes;

  /// Slices that are taken within the concatenations in `shapes`, and pads that are made within the slices
  /// in `of_pads`, and used nowhere else.
  std::set<const Equation*> within;

  /// Slices of a pad, which are one pad.
  std::map<const Equation*, const Equation*> of_pads;
};

/// Of the program's equations (those that it was made flat from) whose operand is split, by these splits, in
/// a dimension where the result cannot be; and concatenations of slices of which that is so, as in a roll.
UnevenResults uneven_results(const FlatProgram& flat, const std::vector<Split>& splits, const Grid& grid);

/// An operand that may have more elements than its shape says, of any value, behind the last ones.
struct PaddedOperand {
  Value value;
  const Shape& shape;

  /// Of an operand of a concatenation, as many elements in front that are not its.
  std::int64_t skipped = 0;
};

/// Whether the equation takes a part of one dimension, one element after the other.
bool is_slice_along(const Equation& equation, const Shape& operand, std::size_t dimension);

/// The pad that a slice of a pad is.
PadParams pad_of(const SliceParams& slice, const PadParams& pad, const Shape& operand);

/// Whether the equation can be given more results.
bool can_resize(const Equation& equation);

/// The shape that a result gets that has no other, where operands are padded: theirs, where most of it is of
/// use. None where the result is as it was.
std::optional<Shape> resized_shape(const Equation& equation, std::span<const PaddedOperand> operands,
                                   const Shape& shape);

/// The result of the equation, with more elements behind the last, of any value.
Value resized(const Equation& equation, std::span<const PaddedOperand> operands, const Shape& shape,
              const Shape& to);

}  // namespace lockstep::sharding
