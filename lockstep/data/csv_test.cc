// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

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

TEST_F(CsvTest, PlainText_GivesItsRows) {
  Table table = read_csv(write("1,2.5\r\n-3,4e2\n"));
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.columns, 2);
  EXPECT_THAT(table.values, ElementsAre(1, 2.5, -3, 400));
}

TEST_F(CsvTest, NumbersTooSmallForAFloat_AreRounded) {
  const Table table =
      read_csv(write("1e-50,-1e-50,1e-9999,-1E-9999,1e-45,0." + std::string(60, '0') + "1,3e38\n"));
  EXPECT_THAT(table.values, ElementsAre(0, 0, 0, 0, std::numeric_limits<float>::denorm_min(), 0, 3e38f));
  EXPECT_TRUE(std::signbit(table.values[1]) && std::signbit(table.values[3]));
}

TEST_F(CsvTest, SeveralMembersOfGzip_AreReadWhole_AndTrailingBytesAreAnError) {
  std::string bytes;
  for (const char* row : {"1,2\n", "3,4\n"}) {
    gzFile file = gzopen(path_.c_str(), "wb");
    gzwrite(file, row, 4);
    gzclose(file);
    std::ifstream in(path_, std::ios::binary);
    bytes += std::string(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_EQ(read_csv(write(bytes)).rows, 2);
  EXPECT_EQ(read_csv(write(bytes + std::string(100, '\0'))).rows, 2);
  EXPECT_THAT(error_of(bytes + "junk"), HasSubstr("damaged or cut off"));
  for (std::size_t size = 2; size < bytes.size(); ++size) {
    if (size == bytes.size() / 2) continue;  // The first member.
    EXPECT_THAT(error_of(bytes.substr(0, size)), HasSubstr("damaged or cut off")) << size;
  }
}

TEST_F(CsvTest, CompressedText_IsRead_AndIsAnErrorIfCutOff) {
  gzFile file = gzopen(path_.c_str(), "wb");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 1000) + "\n";
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_csv(path_).rows, 5000);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_THROW(read_csv(path_), DataError);
}

TEST_F(CsvTest, DamagedText_IsAnErrorThatNamesLineAndColumn) {
  EXPECT_THAT(error_of("1,2\n3,x7\n"), HasSubstr("line 2 column 2: expected a number, got 'x7'"));
  EXPECT_THAT(error_of("\n1,2\n\n\n3,x\n"), HasSubstr("line 5 column 2"));
  EXPECT_THAT(error_of("1,2\n\n3\n"), HasSubstr("line 3 has 1 columns"));
  EXPECT_THAT(error_of("1e39\n"),
              HasSubstr("line 1 column 1: expected a number that fits 32-bit floats, got '1e39'"));
  EXPECT_THAT(error_of("1,-1e9999\n"), HasSubstr("column 2: expected a number that fits"));
  EXPECT_THAT(error_of("1,2\n3\n"), HasSubstr("line 2 has 1 columns, but the lines before have 2"));
  EXPECT_THAT(error_of(""), HasSubstr("has no rows"));
}

TEST_F(CsvTest, AMissingFile_IsNamed) {
  try {
    read_csv("/nonexistent/digits.csv");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open /nonexistent/digits.csv: No such file"));
  }
}

TEST(Shuffled, IsAPermutationThatDependsOnTheSeed) {
  auto order = shuffled(100, 7);
  EXPECT_EQ(order, shuffled(100, 7));
  EXPECT_NE(order, shuffled(100, 8));
  std::ranges::sort(order);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace lockstep::data
