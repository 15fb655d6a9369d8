// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// A table of numbers, row-major.
struct Table {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;

  const float* row(std::int64_t i) const { return values.data() + i * columns; }
};

/// The numbers of a text file, separated by commas, one row in each line; empty lines are skipped. The file
/// may be compressed by gzip. A number too small for a float is 0. Throws DataError, with the path and if
/// possible the line and column, for a file that cannot be read or is truncated, a field that is not a number
/// or too large, rows of different lengths, and a file without rows.
Table read_csv(const std::string& url);

/// The numbers 0 to n - 1 in an order that depends on the seed only: the same on every process and every
/// machine.
std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed);

}  // namespace lockstep::data
