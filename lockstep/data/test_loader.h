// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests of loaders: records that identify themselves, and the expected batches of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/loader.h"
#include "lockstep/data/order.h"

namespace lockstep::data::test {

inline constexpr std::int64_t kColumns = 8;

/// The value of record i in this column.
inline std::int32_t value_of(std::uint64_t i, std::int64_t column) {
  return static_cast<std::int32_t>((i + 1) * 1000 + static_cast<std::uint64_t>(column));
}

/// Records {x: i32[8], label: i64[]} that all differ.
inline SourcePtr counting(std::uint64_t count, std::uint64_t offset = 0) {
  return from_function(
      count, offset == 0 ? "counting" : "counting from " + std::to_string(offset), [offset](std::uint64_t i) {
        std::vector<std::int32_t> x;
        for (std::int64_t c = 0; c < kColumns; ++c) x.push_back(value_of(i + offset, c));
        return Record{{"x", Field::of(x)}, {"label", Field::scalar(static_cast<std::int64_t>(i + offset))}};
      });
}

/// Compares the parts of batch number b on this process's devices with the order over one source of
/// `counting`.
inline void expect_batch(const Batch& batch, const Order& order, const Shape& shape, std::uint64_t b) {
  const auto size = static_cast<std::uint64_t>(num_elements(shape));
  // The position of the record of the element at `at` of the part.
  auto for_each = [&](const Array& array, const auto& check) {
    for (const Shard& shard : array.addressable_shards()) {
      for (std::int64_t flat = 0; flat < num_elements(shard.shape); ++flat) {
        std::int64_t rest = flat;
        std::vector<std::int64_t> at(shard.shape.size());
        for (std::size_t d = at.size(); d-- > 0;) {
          at[d] = rest % shard.shape[d] + shard.index[d].start;
          rest /= shard.shape[d];
        }
        std::uint64_t row = 0;
        for (std::size_t d = 0; d < shape.size(); ++d)
          row = row * static_cast<std::uint64_t>(shape[d]) + static_cast<std::uint64_t>(at[d]);
        check(shard, flat, b * size + row, at.size() > shape.size() ? at.back() : 0);
      }
    }
  };
  for_each(batch["x"], [&](const Shard& shard, std::int64_t flat, std::uint64_t k, std::int64_t column) {
    const std::int32_t expected = k < order.end() ? value_of(order.at(k).record, column) : 0;
    ASSERT_EQ(static_cast<const std::int32_t*>(shard.data)[flat], expected) << "position " << k;
  });
  for_each(batch["label"], [&](const Shard& shard, std::int64_t flat, std::uint64_t k, std::int64_t) {
    const std::uint64_t expected = k < order.end() ? order.at(k).record : 0;
    ASSERT_EQ(static_cast<const std::int64_t*>(shard.data)[flat], static_cast<std::int64_t>(expected));
  });
  for_each(batch.valid, [&](const Shard& shard, std::int64_t flat, std::uint64_t k, std::int64_t) {
    ASSERT_EQ(static_cast<const std::uint8_t*>(shard.data)[flat], k < order.end() ? 1 : 0);
  });
}

}  // namespace lockstep::data::test
