// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the tests of this folder: numbers whose sums depend on the order in which they are rounded.

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"

namespace lockstep::collectives {

inline constexpr DType kNarrowFloats[] = {DType::kF16, DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};

/// All finite numbers of a narrow float, each of which a double can represent exactly.
class NarrowNumbers {
 public:
  explicit NarrowNumbers(DType dtype);

  /// Writes the number nearest to the value, of two the one with an even last bit. The value must not be
  /// beyond the largest number.
  void write(double value, std::byte* to) const;
  double read(const std::byte* from) const;

  DType dtype() const { return dtype_; }
  double at_one() const;  ///< the distance from 1 to the next number

 private:
  struct Number {
    double value;
    unsigned bits;
  };
  const DType dtype_;
  std::vector<Number> numbers_;  ///< not negative, ascending
};

/// The terms of `members` members, whose sums are exact in f32: a large number with many that are lost if
/// they are added to it one by one and each sum is rounded.
struct SumOrder {
  std::string name;
  /// A member's element number `at`.
  double (*value)(int member, int members, std::size_t at, const NarrowNumbers& numbers);
};
const std::vector<SumOrder>& sum_orders();

}  // namespace lockstep::collectives
