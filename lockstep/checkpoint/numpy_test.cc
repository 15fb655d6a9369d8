// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/numpy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/test_npz.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using data::test::npy_file;
using test::npz_entry;
using test::npz_file;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string floats(const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string write(const TemporaryFolder& folder, const std::string& bytes) {
  const auto path = folder.path() / "numbers.npz";
  std::ofstream(path) << bytes;
  return path.string();
}

std::vector<float> numbers_of(const Opened& opened, const std::string& path) {
  const ArrayInfo& info = opened.array(path);
  std::vector<float> numbers(bytes_of(info) / sizeof(float));
  opened.read({{path, whole(info.shape), reinterpret_cast<std::byte*>(numbers.data())}});
  return numbers;
}

/// In KiB: the most memory that this process has had.
long most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

TEST(Npz, Arrays_AreReadByTheirNames_InEitherOrderOfElements) {
  const TemporaryFolder folder;
  const auto opened = Opened::open(write(
      folder, npz_file({npz_entry("a", npy_file("<f4", "(2, 3)", floats({0, 1, 2, 3, 4, 5}))),
                        npz_entry("b/columns", npy_file("<f4", "(2, 3)", floats({0, 3, 1, 4, 2, 5}), "True")),
                        npz_entry("none", npy_file("<f4", "(0,)", ""))})));
  EXPECT_EQ(opened->manifest().arrays.size(), 3u);
  const std::vector<float> expected = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(numbers_of(*opened, "a"), expected);
  EXPECT_EQ(numbers_of(*opened, "b/columns"), expected);
  EXPECT_TRUE(numbers_of(*opened, "none").empty());
  opened->verify();
}

TEST(Npz, Opening_ReadsHeadersOnly_OfAFileThatUnpacksToGigabytes) {
  const TemporaryFolder folder;
  constexpr std::uint32_t kBlock = 1 << 20, kBlocks = 3 << 10;
  const std::string header = npy_file("<f4", "(805306368,)", "");
  const std::string columns = npy_file("<f4", "(2, 402653184)", "", "True");
  std::vector<test::NpzEntry> entries;
  for (const std::string& each : {header, columns}) {
    entries.push_back({"x" + std::to_string(entries.size()) + ".npy",
                       test::deflated(each, std::string(kBlock, '\0'), kBlocks),
                       static_cast<std::uint32_t>(each.size()) + kBlock * kBlocks, 0});
  }
  const std::string url = write(folder, npz_file(entries));
  const long before = most_memory();
  const auto opened = Opened::open(url);
  EXPECT_EQ(bytes_of(opened->array("x0")), std::uint64_t{kBlock} * kBlocks);
  EXPECT_EQ(bytes_of(opened->array("x1")), std::uint64_t{kBlock} * kBlocks);
  EXPECT_LT(most_memory() - before, 64 << 10);
  // A part at the beginning is unpacked, and no more.
  std::vector<std::byte> some(4096);
  opened->read({{"x0", {{0, 1024}}, some.data()}});
  EXPECT_LT(most_memory() - before, 64 << 10);
}

TEST(Npz, DamagedArray_IsRefusedWhenItIsRead_WithItsName) {
  const TemporaryFolder folder;
  const std::string npy = npy_file("<f4", "(4,)", floats({1, 2, 3, 4}));
  auto wrong_sum = npz_entry("sum", npy), short_one = npz_entry("short", npy),
       long_one = npz_entry("long", npy);
  wrong_sum.checksum ^= 1;
  short_one.compressed = test::deflated(npy.substr(0, npy.size() - 8));
  long_one.compressed = test::deflated(npy + "more");
  const auto opened = Opened::open(write(folder, npz_file({wrong_sum, short_one, long_one})));
  for (const std::string name : {"sum", "short", "long"}) {
    EXPECT_THAT(error_of<CheckpointError>([&] { numbers_of(*opened, name); }),
                HasSubstr("is damaged, or not an .npz file: its entry " + name + ".npy"));
  }
  EXPECT_THAT(error_of<CheckpointError>([&] { opened->verify(); }), HasSubstr("is damaged"));
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(write(folder, "PK\x05\x06")); }),
              HasSubstr("numbers.npz is damaged, or not an .npz file"));
}

}  // namespace
}  // namespace lockstep::checkpoint
