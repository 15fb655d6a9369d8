// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/index_shuffle.h"

#include <cmath>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::data {
namespace {

/// A bijection of 64 bits in which each bit of the argument changes about half of the result's.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 29;
  x *= 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  return x;
}

/// A number below `limit`, of 64 random bits.
std::uint64_t below(std::uint64_t bits, std::uint64_t limit) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * limit) >> 64);
}

}  // namespace

// The numbers are arranged in a table of rows × columns, both about the square root of n. Each round moves
// every element along its row, or along its column, by an amount that only depends on that row or column.
// Such a step is invertible, so all of them together are a bijection of the table. The table is larger than n
// by less than one row; elements that end at positions of at least n are moved again until they do not, which
// leaves a bijection of the n numbers.
IndexShuffle::IndexShuffle(std::uint64_t n, std::uint64_t seed) : n_(n), keys_{}, small_{} {
  if (n > std::uint64_t{1} << 62) fail<ShapeError>("[index_shuffle] expected n of at most 2^62, got {}", n);
  rows_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (rows_ * rows_ < n) ++rows_;
  while (rows_ > 1 && (rows_ - 1) * (rows_ - 1) >= n) --rows_;
  columns_ = rows_ == 0 ? 0 : (n + rows_ - 1) / rows_;
  std::uint64_t state = mix(seed + 0x632be59bd9b4e019) ^ mix(n * 0x9e3779b97f4a7c15 + 1);
  auto next = [&] { return mix(state += 0x9e3779b97f4a7c15); };
  for (std::uint64_t& key : keys_) key = next();
  // A table of a few rows does not mix: neighbours too often end up equally far apart. So few numbers are put
  // in order one by one.
  if (n <= kSmall) {
    for (std::uint64_t i = 0; i < n; ++i) small_[i] = static_cast<std::uint8_t>(i);
    for (std::uint64_t i = n; i > 1; --i) std::swap(small_[i - 1], small_[below(next(), i)]);
  }
}

std::uint64_t IndexShuffle::operator()(std::uint64_t i) const {
  if (n_ <= kSmall) return i < n_ ? small_[i] : i;
  do {
    std::uint64_t row = i / columns_, column = i % columns_;
    for (int round = 0; round < kRounds; round += 2) {
      row += below(mix(column + keys_[static_cast<std::size_t>(round)]), rows_);
      if (row >= rows_) row -= rows_;
      column += below(mix(row + keys_[static_cast<std::size_t>(round) + 1]), columns_);
      if (column >= columns_) column -= columns_;
    }
    i = row * columns_ + column;
  } while (i >= n_);
  return i;
}

std::uint64_t index_shuffle(std::uint64_t i, std::uint64_t n, std::uint64_t seed) {
  return IndexShuffle(n, seed)(i);
}

}  // namespace lockstep::data
