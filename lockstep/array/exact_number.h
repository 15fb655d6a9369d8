// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"

/// C++ numbers that meet f64. A double is a weak f32 to the user, which keeps the bits of programs in f32.
/// Where an operation is in f64 or c128, it gets the double: by these functions.
namespace lockstep::internal {

/// Whether arrays of this type may be numbers: weak f32 scalars.
bool may_be_number(const Aval& aval);

/// The number of a concrete array: the double of which it was made, or else its value, as a weak f64 scalar.
Array number_in_f64(const Array& number);

/// In f64, if it can be told: a number, or a value that arithmetic of a trace made of numbers. Otherwise x.
Array exact_number(const Array& x);

/// The numbers among the inputs of an outermost trace. Their doubles become further inputs, if they are
/// needed.
class NumberInputs {
 public:
  /// After `tracer` was made for leaf `leaf` of a call.
  void add(const Array& tracer, std::size_t leaf);

  /// The places of the captures that stand for a leaf's double, each with its leaf.
  using Places = std::vector<std::pair<std::size_t, std::size_t>>;
  Places places(std::span<const Array> captures) const;

 private:
  std::vector<std::pair<Array, std::size_t>> doubles_;  ///< what stands for the double of each leaf
};

}  // namespace lockstep::internal
