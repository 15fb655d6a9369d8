// SPDX-License-Identifier: Apache-2.0
#pragma once

// The matrix of the comparison, for Lockstep's side and the plain one.

#include <cstdint>
#include <vector>

namespace compare {

/// The Laplacian of a square of size x size cells, with zeros outside: 4 on the diagonal, -1 for each
/// neighbour.
struct Laplacian {
  std::vector<double> data;
  std::vector<std::int32_t> columns, pointers = {0};
  std::vector<double> right;  ///< a right side

  explicit Laplacian(std::int64_t size) {
    const auto n = static_cast<std::int32_t>(size);
    auto put = [&](double value, std::int32_t column) {
      data.push_back(value);
      columns.push_back(column);
    };
    for (std::int32_t i = 0; i < n; ++i) {
      for (std::int32_t j = 0; j < n; ++j) {
        const std::int32_t row = i * n + j;
        if (i > 0) put(-1, row - n);
        if (j > 0) put(-1, row - 1);
        put(4, row);
        if (j + 1 < n) put(-1, row + 1);
        if (i + 1 < n) put(-1, row + n);
        pointers.push_back(static_cast<std::int32_t>(data.size()));
        right.push_back((7 * i + 13 * j) % 32 / 32.0);
      }
    }
  }
};

}  // namespace compare
