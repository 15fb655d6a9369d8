// SPDX-License-Identifier: Apache-2.0
// Tests of a program with GoogleTest, which run in one process and, unchanged, in several:
//
//   $ build/release/examples/column_means_test
//   $ lockstep run -n 2 -- build/release/examples/column_means_test

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P;

/// What is tested: the mean of each column.
Array column_means(const Array& x) { return ls::mean(x, 0); }

/// Two rows on each of the job's devices: row i holds i and -i.
Array some_rows() {
  const std::int64_t rows = 2 * ls::device_count();
  const ls::NamedSharding split(ls::make_mesh({{"rows", ls::device_count()}}), P("rows"));
  return ls::make_array_from_callback<float>({rows, 2}, split, [](const std::vector<ls::IndexRange>& part) {
    std::vector<float> values;
    for (std::int64_t i = part[0].start; i < part[0].limit; ++i)
      values.insert(values.end(), {static_cast<float>(i), static_cast<float>(-i)});
    return values;
  });
}

// Every process runs every test, in the same order, for a test may launch programs over all of them.
TEST(ColumnMeans, OfSplitRows_AreTheMeansOfAllRows) {
  const float mean = (2 * ls::device_count() - 1) / 2.0f;
  EXPECT_EQ(ls::jit(column_means)(some_rows()).to_host<float>(), (std::vector<float>{mean, -mean}));
}

// What a program moves can be tested, too: here a sum of two numbers for each device, and no rows.
TEST(ColumnMeans, OfSplitRows_NeedOneAllReduce) {
  const auto moved = ls::jit(column_means).lower(some_rows()).communication();
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].kind, "all-reduce");
  EXPECT_LE(moved[0].bytes, 16);
}

TEST(ColumnMeans, OfAScalar_AreAnError) { EXPECT_THROW(column_means(ls::ones({}, ls::float32)), ls::Error); }

int main(int argc, char** argv) {
  ls::initialize({.num_cpu_devices = 2});
  // All processes report what failed, but only one what passed.
  testing::GTEST_FLAG(brief) = ls::process_index() != 0;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
