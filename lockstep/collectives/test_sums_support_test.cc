// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/base/half.h"
#include "lockstep/collectives/test_sums.h"

namespace lockstep::collectives {
namespace {

/// To add 1 to it changes nothing.
double large(const NarrowNumbers& numbers) { return 2 / numbers.at_one(); }

}  // namespace

NarrowNumbers::NarrowNumbers(DType dtype) : dtype_(dtype) {
  for (unsigned bits = 0; bits < 1u << (8 * size_of(dtype) - 1); ++bits) {
    const double value = narrow_float_value(dtype, &bits);
    if (std::isfinite(value)) numbers_.push_back({value, bits});
  }
  std::ranges::sort(numbers_, {}, &Number::value);
}

void NarrowNumbers::write(double value, std::byte* to) const {
  const double size = std::abs(value);
  auto above = std::ranges::lower_bound(numbers_, size, {}, &Number::value);
  if (above == numbers_.end()) --above;
  auto nearest = above;
  if (above != numbers_.begin()) {
    const auto below = above - 1;
    const double up = above->value - size, down = size - below->value;
    if (down < up || (down == up && below->bits % 2 == 0)) nearest = below;
  }
  const unsigned bits = nearest->bits | (std::signbit(value) ? 1u << (8 * size_of(dtype_) - 1) : 0u);
  std::memcpy(to, &bits, size_of(dtype_));
}

double NarrowNumbers::read(const std::byte* from) const { return narrow_float_value(dtype_, from); }

double NarrowNumbers::at_one() const {
  return std::ranges::upper_bound(numbers_, 1.0, {}, &Number::value)->value - 1;
}

const std::vector<SumOrder>& sum_orders() {
  static const std::vector<SumOrder> orders = {
      {"a large one first", [](int member, int, std::size_t,
                               const NarrowNumbers& numbers) { return member == 0 ? large(numbers) : 1.0; }},
      {"a large one last",
       [](int member, int members, std::size_t, const NarrowNumbers& numbers) {
         return member == members - 1 ? large(numbers) : 1.0;
       }},
      {"a large one and its opposite",
       [](int member, int members, std::size_t, const NarrowNumbers& numbers) {
         return member == 0 ? large(numbers) : member == members - 1 ? -large(numbers) : 1.0;
       }},
      {"equal ones", [](int, int, std::size_t, const NarrowNumbers&) { return 1.0; }},
      {"small ones of both signs",
       [](int member, int members, std::size_t at, const NarrowNumbers& numbers) {
         const auto large_at = static_cast<int>(at % static_cast<std::size_t>(members));
         if (member == large_at) return at % 2 != 0 ? large(numbers) : -large(numbers);
         return static_cast<double>((member * 7 + static_cast<int>(at % 1000) * 5) % 5 - 2);
       }},
  };
  return orders;
}

}  // namespace lockstep::collectives
