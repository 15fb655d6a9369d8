#pragma once

#include <optional>

#include "lockstep/random/random.h"

/// Random orders and draws, with the very results of jax.random.
namespace lockstep::random {

/// 0 ... n - 1 in random order: i32.
Array permutation(const Operand& key, std::int64_t n);

/// The parts of x along the axis, in random order. An axis that there is not is a ShapeError.
Array permutation(const Operand& key, const Array& x, std::int64_t axis = 0);

struct ChoiceOptions {
  bool replace = true;          ///< whether a number may be drawn more than once
  std::optional<Array> p = {};  ///< their probabilities; by default all the same
};

/// Numbers drawn from 0 ... n - 1: i32 of this shape. Throws ShapeError for more than n without replacement,
/// and for probabilities that are not one for each.
Array choice(const Operand& key, std::int64_t n, const Shape& shape = {}, const ChoiceOptions& options = {});

/// The same of the parts of `values` along its leading dimension.
Array choice(const Operand& key, const Array& values, const Shape& shape = {},
             const ChoiceOptions& options = {});

}  // namespace lockstep::random
