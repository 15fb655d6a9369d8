// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/random/random.h"

/// Random permutations and choices, with exactly the results of jax.random.
namespace lockstep::random {

/// 0 ... n - 1 in random order: i32[n].
Array permutation(const KeyOperand& key, std::int64_t n);

/// x with its slices along the axis in random order. Throws ShapeError for an axis out of range.
Array permutation(const KeyOperand& key, const Array& x, std::int64_t axis = 0);

struct ChoiceOptions {
  bool replace = true;          ///< whether a number may be drawn several times
  std::optional<Array> p = {};  ///< the probability of each number; by default equal
};

/// Numbers drawn from 0 ... n - 1: i32 of this shape. Throws ShapeError for more than n numbers without
/// replacement, and unless p has n elements.
Array choice(const KeyOperand& key, std::int64_t n, const Shape& shape = {},
             const ChoiceOptions& options = {});

/// Slices of `values` along its first dimension, drawn in the same way.
Array choice(const KeyOperand& key, const Array& values, const Shape& shape = {},
             const ChoiceOptions& options = {});

}  // namespace lockstep::random
