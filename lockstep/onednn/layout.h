// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/base/strides.h"

namespace lockstep::onednn {

using Integers = std::vector<std::int64_t>;

/// The elements of an array of f32: the number and the distance of each dimension's, in oneDNN's order.
struct Layout {
  Integers sizes, strides;
};

/// The dimensions first, second and the spatial ones of an array whose spec begins with the batch or output
/// features; or second, first and the spatial ones.
inline Layout layout_of(const Integers& shape, const Integers& spec, bool swapped = false) {
  const Integers strides = internal::row_major_strides(shape);
  Layout layout;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const auto d = static_cast<std::size_t>(spec[swapped && i < 2 ? 1 - i : i]);
    layout.sizes.push_back(shape[d]);
    layout.strides.push_back(strides[d]);
  }
  return layout;
}

/// The product of the numbers from `from` on.
inline std::int64_t product(const Integers& values, std::size_t from = 0) {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(from), values.end(), std::int64_t{1},
                         std::multiplies<>());
}

}  // namespace lockstep::onednn
