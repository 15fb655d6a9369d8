// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvTest : public ::testing::Test {
 protected:
  CsvTest() : path_(std::filesystem::path(::testing::TempDir()) / ("csv_test_" + std::to_string(getpid()))) {}
  ~CsvTest() override { std::filesystem::remove(path_); }

  std::string write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  std::string error_of(const std::string& text) {
    try {
      read_csv(write(text));
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path path_;
};

TEST_F(CsvTest, PlainTextGivesItsRows) {
  Table table = read_csv(write("1,2.5\r\n-3,4e2\n"));
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.columns, 2);
  EXPECT_THAT(table.values, ElementsAre(1, 2.5, -3, 400));
}

TEST_F(CsvTest, CompressedTextGivesTheSame_AndCutOffIsAnError) {
  gzFile file = gzopen(path_.c_str(), "wb");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 1000) + "\n";
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_csv(path_).rows, 5000);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_THROW(read_csv(path_), DataError);
}

TEST_F(CsvTest, DamagedTextIsNamedByLineAndColumn) {
  EXPECT_THAT(error_of("1,2\n3,x7\n"), HasSubstr("line 2 column 2: expected a number, got 'x7'"));
  EXPECT_THAT(error_of("1,2\n3\n"), HasSubstr("line 2 has 1 columns, the lines before have 2"));
  EXPECT_THAT(error_of(""), HasSubstr("has no rows"));
}

TEST_F(CsvTest, MissingFileIsNamed) {
  try {
    read_csv("/nonexistent/digits.csv");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open /nonexistent/digits.csv: No such file"));
  }
}

TEST(Shuffled, IsAPermutationThatTheSeedDecides) {
  auto order = shuffled(100, 7);
  EXPECT_EQ(order, shuffled(100, 7));
  EXPECT_NE(order, shuffled(100, 8));
  std::ranges::sort(order);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace lockstep::data
