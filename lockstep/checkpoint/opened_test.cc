// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/opened.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "lockstep/checkpoint/part_writer.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/rounds.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

/// The parts of an array that is cut into so many along each dimension.
std::vector<Box> parts_of(const Shape& shape, const Shape& cuts) {
  std::vector<Box> parts{{}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Box> longer;
    for (const Box& part : parts) {
      for (std::int64_t i = 0; i < cuts[d]; ++i) {
        Box box = part;
        box.push_back({shape[d] * i / cuts[d], shape[d] * (i + 1) / cuts[d]});
        longer.push_back(box);
      }
    }
    parts = longer;
  }
  return parts;
}

/// Six ways to spread an array of three dimensions over so many processes.
std::vector<Shape> six_cuts(std::int64_t count) {
  const std::int64_t half = count > 1 ? 2 : 1;
  return {{1, 1, 1}, {count, 1, 1}, {1, count, 1}, {half, count / half, 1}, {half, 1, 1}, {1, 1, count}};
}

constexpr std::uint64_t kOpenedSeed = 3;

/// A checkpoint of one array, whose parts are in a file each.
void write_checkpoint(const std::string& url, const Shape& shape, const std::vector<Box>& parts) {
  const auto store = storage::open_store(url, /*make=*/true);
  Manifest manifest;
  manifest.nonce = "n";
  ArrayInfo& array = manifest.arrays["x"];
  array.dtype = DType::kF32;
  array.dtype_name = "F32";
  array.shape = shape;
  for (const Box& box : parts) {
    const std::vector<std::byte> bytes = lockstep::test::expected_bytes(shape, box, DType::kF32, kOpenedSeed);
    PartSource source{"x", DType::kF32, shape, box, {}};
    source.elements = [&](const Box& rows, std::byte* scratch) {
      copy_common(whole(shape_of(box)), bytes.data(), rows, scratch, 4);
      return scratch;
    };
    WrittenFile file = write_parts(*store, ".", "part-" + std::to_string(manifest.files.size()), {source});
    file.parts[0].file = manifest.files.size();
    array.parts.push_back(file.parts[0]);
    manifest.files.push_back(file.file);
  }
  auto writer = store->create(kManifestName);
  const std::string json = to_json(manifest);
  writer->write(std::as_bytes(std::span(json)));
  writer->finish();
}

TEST(Opened, ReadsAtMostATenthMoreThanItNeeds_HoweverItWasSaved) {
  TemporaryFolder folder;
  const Shape shape{128, 128, 256};  // 16 MiB
  int number = 0;
  const std::vector<std::int64_t> some{1, 8}, all{1, 2, 4, 8};
  const std::vector<std::int64_t>& counts = testing::long_tests() ? all : some;
  for (std::int64_t writers : counts) {
    for (const Shape& saved : six_cuts(writers)) {
      const std::string url = folder.path() / std::to_string(number++);
      // An array that all writers have is divided between them.
      write_checkpoint(url, shape, parts_of(shape, saved == Shape{1, 1, 1} ? Shape{writers, 1, 1} : saved));
      for (std::int64_t readers : counts) {
        for (const Shape& wanted : six_cuts(readers)) {
          const Box box = parts_of(shape, wanted).back();
          std::vector<std::byte> memory(static_cast<std::size_t>(volume(box)) * 4);
          const auto opened = Opened::open(url);
          opened->read({{"x", box, memory.data()}});
          EXPECT_LE(static_cast<double>(opened->bytes_read()), 1.1 * static_cast<double>(memory.size()))
              << lockstep::to_string(saved) << " to " << lockstep::to_string(wanted);
          if ((number + readers) % 5 == 0) {
            EXPECT_TRUE(memory == lockstep::test::expected_bytes(shape, box, DType::kF32, kOpenedSeed));
          }
        }
      }
      std::filesystem::remove_all(url);
    }
  }
}

TEST(Opened, APartOfALargeArray_IsReadCorrectlyByAllThreads) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const Shape shape{40, 1024, 1024};  // 160 MiB, ten units
  write_checkpoint(url, shape, parts_of(shape, {2, 1, 1}));
  const Box box{{3, 37}, {0, 1024}, {100, 612}};
  std::vector<std::byte> memory(static_cast<std::size_t>(volume(box)) * 4);
  Opened::open(url)->read({{"x", box, memory.data()}});
  EXPECT_TRUE(memory == lockstep::test::expected_bytes(shape, box, DType::kF32, kOpenedSeed));
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string safetensors_of(std::vector<safetensors::Tensor> tensors) {
  std::string bytes = safetensors::make_header(tensors, {});
  for (const safetensors::Tensor& tensor : tensors)
    for (std::uint64_t i = 0; i < tensor.bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(Opened, AFolderOfHuggingFace_IsReadByItsIndex) {
  TemporaryFolder folder;
  write_bytes(folder.path() / "model-00001-of-00002.safetensors",
              safetensors_of({{"a", "U8", {2, 3}, 0, 6}, {"b", "BF16", {2}, 0, 4}}));
  write_bytes(folder.path() / "model-00002-of-00002.safetensors",
              safetensors_of({{"c", "F8_E8M0", {4}, 0, 4}}));
  auto index = [&](const std::string& weights) {
    write_bytes(folder.path() / "model.safetensors.index.json", R"({"weight_map": {)" + weights + "}}");
  };
  index(R"("a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
           "c": "model-00002-of-00002.safetensors")");
  const auto opened = Opened::open(folder.path());
  EXPECT_EQ(describe(opened->array("b")), "bf16[2]");
  EXPECT_EQ(describe(opened->array("c")), "F8_E8M0[4]");
  std::vector<std::byte> memory(2);
  opened->read({{"a", {{1, 2}, {1, 3}}, memory.data()}});
  EXPECT_EQ(memory, (std::vector<std::byte>{std::byte{4}, std::byte{5}}));
  EXPECT_THAT(error_of<CheckpointError>([&] {
                opened->read({{"c", {{0, 4}}, memory.data()}});
              }),
              HasSubstr("c is F8_E8M0[4], a dtype that Lockstep does not have"));
  index(R"("a": "model-00002-of-00002.safetensors")");
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(folder.path()); }),
              HasSubstr("has the tensor a, but it does not"));
  index(R"("a": 3)");
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(folder.path()); }), HasSubstr("is damaged"));
  std::filesystem::remove(folder.path() / "model.safetensors.index.json");
  EXPECT_EQ(Opened::open(folder.path())->manifest().arrays.size(), 3u) << "all files of the folder";
  write_bytes(folder.path() / "more.safetensors", safetensors_of({{"a", "U8", {1}, 0, 1}}));
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(folder.path()); }),
              HasSubstr("several files have a tensor a"));
  EXPECT_EQ(Opened::open(folder.path() / "more.safetensors")->manifest().arrays.size(), 1u);
}

TEST(Safetensors, InvalidHeaders_AreErrors) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  auto error = [&](const std::string& header, std::size_t data, std::int64_t length = -1) {
    std::uint64_t bytes = length < 0 ? header.size() : static_cast<std::uint64_t>(length);
    std::string file(8, '\0');
    std::memcpy(file.data(), &bytes, 8);
    write_bytes(path, file + header + std::string(data, 'x'));
    return error_of<CheckpointError>([&] { Opened::open(path); });
  };
  auto tensor = [](const std::string& dtype, const std::string& shape, int from, int to) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" + std::to_string(from) +
           "," + std::to_string(to) + "]}";
  };
  const std::string good = tensor("U8", "[4]", 0, 4);
  EXPECT_THAT(error("{}", 0, 1000), HasSubstr("does not fit the 10 of the file"));
  EXPECT_THAT(error("{}", 0, std::int64_t{1} << 40), HasSubstr("does not fit"));
  EXPECT_THAT(error("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{\"a\":", 0), HasSubstr("damaged"));
  EXPECT_THAT(error("{\"a\":{}}", 0), HasSubstr("damaged"));
  EXPECT_THAT(error("{\"a\":" + good + "}", 3), HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"a\":" + good + "}", 5), HasSubstr("end at byte"));
  EXPECT_THAT(error("{\"a\":" + tensor("U8", "[4]", 1, 5) + "}", 5), HasSubstr("begins at byte"));
  EXPECT_THAT(error("{\"a\":" + good + ",\"b\":" + tensor("U8", "[2]", 2, 4) + "}", 4),
              HasSubstr("begins at byte"));
  EXPECT_THAT(error("{\"a\":" + tensor("F32", "[4]", 0, 4) + "}", 4), HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"a\":" + tensor("F32", "[-1]", 0, 4) + "}", 4), HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"a\":" + tensor("U8", "[9007199254740993,9007199254740993]", 0, 4) + "}", 4),
              HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"a\":" + tensor("NEW", "[4]", 0, 4) + "}", 4), HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"a\":" + tensor("U8", "[4]", 4, 0) + "}", 4), HasSubstr("does not fit its bytes"));
  EXPECT_THAT(error("{\"__metadata__\":[1],\"a\":" + good + "}", 4), HasSubstr("damaged"));
  write_bytes(path, "123");
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(path); }), HasSubstr("it has 3 bytes"));
  const std::string header = "{\"__metadata__\":null,\"a\":" + good + "}";
  const std::uint64_t bytes = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &bytes, 8);
  write_bytes(path, file + header + "abcd");
  EXPECT_EQ(Opened::open(path)->manifest().arrays.at("a").shape, Shape{4})
      << "as the safetensors package reads it";
}

}  // namespace
}  // namespace lockstep::checkpoint
