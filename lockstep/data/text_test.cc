// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TextTest : public ::testing::Test {
 protected:
  TextTest()
      : path_(std::filesystem::path(::testing::TempDir()) / ("text_test_" + std::to_string(getpid()))) {}
  ~TextTest() override { std::filesystem::remove(path_); }

  std::string error() {
    try {
      read_text(path_);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path path_;
};

TEST_F(TextTest, PlainText_IsReadUnchanged) {
  const std::string text("a\r\n\0b", 5);
  std::ofstream(path_, std::ios::binary) << text;
  EXPECT_EQ(read_text(path_), text);
}

TEST_F(TextTest, CompressedText_IsReadUnchanged_AndIsAnErrorIfCutOff) {
  const std::string text(200000, 'x');
  gzFile file = gzopen(path_.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_text(path_), text);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_THAT(error(), AllOf(HasSubstr("[read_text] "), HasSubstr(path_), HasSubstr("damaged or cut off")));
}

TEST_F(TextTest, AMissingFile_IsNamed) {
  EXPECT_THAT(error(), AllOf(HasSubstr("[read_text] cannot open "), HasSubstr(path_)));
}

}  // namespace
}  // namespace lockstep::data
