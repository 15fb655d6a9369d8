// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/parquet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/data/test_files.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/temporary_folder.h"

// Tests with rows.parquet, which testdata/make_parquet.py wrote: 20 rows in groups of 7, 7 and 6.

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using namespace test;

const std::string kRows = LOCKSTEP_DATA_TESTDATA "/rows.parquet";

/// All that can be fields.
const std::vector<std::string> kFields = {"i8",     "i16",   "i32",    "i64",  "u8",     "u16",  "u32",
                                          "u64",    "f16",   "f32",    "f64",  "bool",   "text", "large_text",
                                          "binary", "fixed", "tokens", "pair", "struct", "day",  "time"};

/// Before a plugin is loaded, which stays.
TEST(ParquetPlugin, EachKindOfFile_IsLoadedOnlyIfTrusted) {
  const testing::TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  const std::string rows = folder.path() / "rows.parquet";
  std::filesystem::copy_file(kRows, rows);
  const auto check = [&](const testing::GivenFile& given, const std::filesystem::path& path) {
    const std::string words = given.words == "good"      ? "the plugin cannot be loaded"
                              : given.words == "missing" ? "there is no plugin at"
                                                         : given.words;
    setenv("LOCKSTEP_PARQUET_PLUGIN", path.c_str(), 1);
    EXPECT_THAT(error_of<DataError>([&] { parquet(rows); }), HasSubstr(words));
    unsetenv("LOCKSTEP_PARQUET_PLUGIN");
  };
  testing::for_given_files("lockstep_parquet.so", "text", check);
}

class Parquet : public ::testing::Test {
  void SetUp() override {
    const std::string error = error_of<DataError>([] { parquet(kRows, {.columns = {"none"}}); });
    if (error.find("there is no plugin") != error.npos) GTEST_SKIP() << error;
  }
};

Record row(std::int32_t i) {
  Record record;
  record["i8"] = Field::scalar(static_cast<std::int8_t>(i));
  record["i16"] = Field::scalar(static_cast<std::int16_t>(i));
  record["i32"] = Field::scalar(i);
  record["i64"] = Field::scalar(std::int64_t{i});
  record["u8"] = Field::scalar(static_cast<std::uint8_t>(i));
  record["u16"] = Field::scalar(static_cast<std::uint16_t>(i));
  record["u32"] = Field::scalar(static_cast<std::uint32_t>(i));
  record["u64"] = Field::scalar(static_cast<std::uint64_t>(i));
  const _Float16 half = static_cast<_Float16>(i);
  const auto bytes = std::as_bytes(std::span(&half, 1));
  record["f16"] = {DType::kF16, {}, {bytes.begin(), bytes.end()}};
  record["f32"] = Field::scalar(static_cast<float>(i));
  record["f64"] = Field::scalar(static_cast<double>(i));
  record["bool"] = {DType::kBool, {}, {std::byte{i % 3 == 0}}};
  std::string text, binary;
  for (int k = 0; k < i % 3; ++k) text += "row ";
  for (int k = 0; k < i; ++k) binary += static_cast<char>(k);
  if (i % 5 != 4) record["text"] = Field::text(text + std::to_string(i));
  record["large_text"] = Field::text("large " + std::to_string(i));
  record["binary"] = Field::text(binary);
  record["fixed"] =
      Field::of(std::vector<std::uint8_t>{static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(255 - i)});
  std::vector<std::int32_t> tokens;
  for (std::int32_t k = i; k < i + i % 4; ++k) tokens.push_back(k);
  record["tokens"] = Field::of(tokens);
  record["pair"] = Field::of(std::vector<float>{static_cast<float>(i), static_cast<float>(i) + 0.5f});
  record["struct.a"] = Field::scalar(static_cast<std::int16_t>(i));
  record["struct.b"] = Field::text("b" + std::to_string(i));
  record["day"] = Field::scalar(i);
  record["time"] = Field::scalar(std::int64_t{1'000'000} * i);
  return record;
}

TEST_F(Parquet, Rows_EqualThoseWritten) {
  const SourcePtr source = parquet(kRows, {.columns = kFields});
  ASSERT_EQ(source->size(), 20u);
  for (std::int32_t i : {0, 6, 7, 13, 14, 19, 4, 3}) {
    const Record found = source->read(static_cast<std::uint64_t>(i)), expected = row(i);
    EXPECT_EQ(to_string(found), to_string(expected)) << i;
    EXPECT_TRUE(found == expected) << i;
  }
  EXPECT_THAT(source->place(9), ::testing::EndsWith("rows.parquet row 9"));
  EXPECT_THAT(error_of<DataError>([&] { source->read(20); }), HasSubstr("rows.parquet has no record 20"));
}

TEST_F(Parquet, WithLittleMemoryAndManyThreads_TheRowsAreTheSame) {
  const SourcePtr source = parquet(kRows, {.columns = {"i64", "struct.b"}, .cache_bytes = 1});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t k = 0; k < 60; ++k) {
        const std::uint64_t i = k * 11 % 20;
        const Record record = source->read(i);
        EXPECT_EQ(record.size(), 2u);
        EXPECT_EQ(field(record, "i64").values<std::int64_t>()[0], static_cast<std::int64_t>(i));
        EXPECT_EQ(field(record, "struct.b").text(), "b" + std::to_string(i));
      }
    });
  }
}

TEST_F(Parquet, AColumnThatCannotBeAField_IsAnErrorThatNamesIt) {
  EXPECT_THAT(
      error_of<DataError>([] { parquet(kRows)->read(0); }),
      AllOf(HasSubstr("[parquet] "), HasSubstr("rows.parquet row group 0: column 'money' is decimal128"),
            HasSubstr("name the columns")));
  EXPECT_THAT(error_of<DataError>([] {
                parquet(kRows, {.columns = {"i64", "x"}});
              }),
              AllOf(HasSubstr("there is no column 'x'; there are i8, i16"), HasSubstr("struct.b")));
  EXPECT_NE(parquet(kRows, {.columns = {"i8"}})->fingerprint(),
            parquet(kRows, {.columns = {"u8"}})->fingerprint());
}

TEST_F(Parquet, RowGroupsWithMoreThan2GiBOfText_AreReadWhole) {
  const SourcePtr source = parquet(LOCKSTEP_DATA_TESTDATA "/large.parquet", {.cache_bytes = 1});
  ASSERT_EQ(source->size(), 270u);
  for (std::uint64_t i : {0, 1, 255, 266, 267, 268, 269}) {
    const Record record = source->read(i);
    EXPECT_EQ(field(record, "i").values<std::int32_t>()[0], static_cast<std::int32_t>(i));
    const std::string_view text = field(record, "text").text();
    EXPECT_EQ(text.size(), 8'000'000u) << i;
    EXPECT_EQ(text.find_first_not_of(static_cast<char>('a' + i % 4)), text.npos) << i;
  }
}

/// The resident memory of this process, in MiB.
std::size_t resident_memory() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

TEST_F(Parquet, GroupsOfFixedSizeBinaries_CountForTheCacheLimit) {
  // 8 groups of 8 MiB.
  const SourcePtr source = parquet(LOCKSTEP_DATA_TESTDATA "/fixed.parquet", {.cache_bytes = 10 << 20});
  ASSERT_EQ(source->size(), 64u);
  const std::size_t before = resident_memory();
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(field(source->read(i), "fixed").shape, Shape({1 << 20}));
  EXPECT_LT(resident_memory(), before + 40);
}

TEST_F(Parquet, ColumnsOfOneName_AreAnErrorIfBothAreRead) {
  const std::string path = LOCKSTEP_DATA_TESTDATA "/twice.parquet";
  EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("two columns are named 'x'"));
  EXPECT_THAT(error_of<DataError>([&] { parquet(path, {.columns = {"x"}}); }),
              HasSubstr("two columns are named 'x'"));
  EXPECT_EQ(field(parquet(path, {.columns = {"y"}})->read(1), "y").values<std::int64_t>()[0], 4);
}

TEST_F(Parquet, JoinedFiles_AreAnError) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "joined.parquet";
  for (const char* name : {"/rows.parquet", "/fixed.parquet", "/large.parquet"}) {
    const std::string whole = read_file(std::string(LOCKSTEP_DATA_TESTDATA) + name);
    write_file(path, read_file(kRows) + whole);
    EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("the last one begins at byte 17268"))
        << name;
    write_file(path, whole + "other bytes");
    EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("[parquet] " + path)) << name;
  }
}

TEST_F(Parquet, ADamagedFile_IsAnErrorThatNamesIt) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "damaged.parquet", whole = read_file(kRows);
  ASSERT_GT(whole.size(), 1000u);
  write_file(path, whole.substr(0, whole.size() - 9));
  EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("[parquet] " + path + ": "));
  for (std::size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
    write_file(path, whole.substr(0, size));
    EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("[parquet] " + path + ": ")) << size;
  }
  write_file(path, "no Parquet");
  EXPECT_THAT(error_of<DataError>([&] { parquet(path); }), HasSubstr("[parquet] " + path + ": "));
  // The pages come first, each with a checksum.
  int found = 0;
  for (std::size_t at = 100; at < 1000; at += 100) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_file(path, damaged);
    try {
      const SourcePtr source = parquet(path, {.columns = kFields});
      for (std::uint64_t i = 0; i < source->size(); ++i)
        EXPECT_TRUE(source->read(i) == row(static_cast<int>(i)));
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("[parquet] " + path));
      ++found;
    }
  }
  EXPECT_GT(found, 5);
}

}  // namespace
}  // namespace lockstep::data
