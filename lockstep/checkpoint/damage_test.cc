// SPDX-License-Identifier: Apache-2.0
// Every way that a checkpoint's files may be damaged is found before an array is handed out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lockstep/base/digest.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AnyOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A checkpoint of two arrays, of several tiles and of one.
struct Saved {
  TemporaryFolder folder;
  std::string url = folder.path() / "saved";
  std::map<std::string, Array> tree;
  Saved() {
    const Sharding device = SingleDeviceSharding(local_devices().front());
    tree = {{"large", test::made(DType::kF32, {256, 192}, device, 1)},
            {"small", test::made(DType::kU8, {100}, device, 2)}};
    save(url, tree);
  }
  std::string error() {
    return error_of<CheckpointError>([&] {
      const auto restored = restore(url, tree);
      ADD_FAILURE() << "handed out, " << (test::is_made(restored.at("large"), 1) ? "right" : "wrong");
    });
  }
};

TEST(Damage, AFlippedBitAnywhere_IsFound_WithTheArraysName) {
  Saved saved;
  for (const char* name : {"manifest.json", "part-00000-of-00001.safetensors"}) {
    const std::filesystem::path file = std::filesystem::path(saved.url) / name;
    const std::string whole_file = read_file(file);
    ASSERT_GT(whole_file.size(), 500u);
    const bool is_manifest = name[0] == 'm';
    const auto header = Opened::open(saved.url)->manifest().files.front().header_bytes;
    for (std::size_t at = 0, step = is_manifest ? 3 : 1997; at < whole_file.size(); at += step) {
      std::string bytes = whole_file;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
      write_file(file, bytes);
      const std::string error = saved.error();
      if (!is_manifest && at >= header)
        EXPECT_THAT(error, AnyOf(HasSubstr("of [\"large\"] does not match"),
                                 HasSubstr("of [\"small\"] does not match")));
      else
        EXPECT_THAT(error, AnyOf(HasSubstr("damaged"), HasSubstr("is not a checkpoint's manifest")));
    }
    write_file(file, whole_file);
  }
  EXPECT_TRUE(test::is_made(restore(saved.url, saved.tree).at("large"), 1));
}

TEST(Damage, EveryTruncation_IsFound) {
  Saved saved;
  for (const char* name : {"manifest.json", "part-00000-of-00001.safetensors"}) {
    const std::filesystem::path file = std::filesystem::path(saved.url) / name;
    const std::string whole_file = read_file(file);
    for (std::size_t size = 0; size < whole_file.size();
         size += name[0] == 'm' ? 7 : std::min<std::size_t>(2999, whole_file.size() - size)) {
      write_file(file, whole_file.substr(0, size));
      EXPECT_THAT(saved.error(), AnyOf(HasSubstr("damaged"), HasSubstr("is not a checkpoint's manifest")));
    }
    write_file(file, whole_file + "x");
    EXPECT_THAT(saved.error(), HasSubstr("damaged"));
    std::filesystem::remove(file);
    EXPECT_THAT(saved.error(), AnyOf(HasSubstr("whose manifest.json is missing"), HasSubstr("No such file")));
    write_file(file, whole_file);
  }
}

TEST(Damage, PartsOfAnotherCheckpoint_AreFound) {
  Saved saved, other;
  other.tree["large"] = test::made(DType::kF32, {256, 192}, other.tree["large"].sharding(), 3);
  std::filesystem::remove_all(other.url);
  save(other.url, other.tree);
  const char* part = "part-00000-of-00001.safetensors";
  std::filesystem::copy_file(std::filesystem::path(other.url) / part, std::filesystem::path(saved.url) / part,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(saved.error(), HasSubstr("of [\"large\"] does not match"));
}

TEST(Damage, Verify_ReadsAllBytes_AndFindsAFlippedBit) {
  Saved saved;
  std::uint64_t read = 0;
  Opened::open(saved.url)->verify([&](std::uint64_t bytes) { read += bytes; });
  EXPECT_EQ(read, 256u * 192 * 4 + 100);
  const std::filesystem::path file = std::filesystem::path(saved.url) / "part-00000-of-00001.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(file, bytes);
  EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(saved.url)->verify(); }),
              HasSubstr("[\"small\"] does not match"));
}

/// Whatever a manifest says, reading it ends, with the right arrays or a CheckpointError.
void read_anything(const std::string& url, const std::string& what) {
  try {
    const auto opened = Opened::open(url);
    opened->verify();
    (void)restore_numbers(url);
  } catch (const CheckpointError&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
}

TEST(Manifest, WithAnyNumberReplaced_IsReadOrRefused) {
  Saved saved;
  const std::filesystem::path file = std::filesystem::path(saved.url) / "manifest.json";
  const std::string text = read_file(file), body = text.substr(text.find('\n') + 1);
  const char* const kNumbers[] = {"0",
                                  "1",
                                  "-1",
                                  "3",
                                  "4611686018427387904",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "18446744073709551615",
                                  "1e300",
                                  "null",
                                  "[]",
                                  "\"\""};
  int numbers = 0;
  for (std::size_t at = 0; (at = body.find_first_of("0123456789", at)) != body.npos;) {
    const std::size_t end = body.find_first_not_of("0123456789", at);
    const char before = body[at - 1];
    // Numbers, and not digits in texts.
    if (before == ' ' || before == '[' || before == ':') {
      ++numbers;
      for (const char* number : kNumbers) {
        const std::string changed = body.substr(0, at) + number + body.substr(end);
        write_file(file, "{\"xxh3_128\":\"" + digest(changed) + "\",\n" + changed);
        read_anything(saved.url,
                      fmt::format("{} in place of {} at byte {}", number, body.substr(at, end - at), at));
      }
    }
    at = end;
  }
  EXPECT_GT(numbers, 20);
}

TEST(Manifest, ForgedTilesShapesAndSums_AreRefused) {
  Saved saved;
  const std::filesystem::path file = std::filesystem::path(saved.url) / "manifest.json";
  const Manifest good = parse_manifest(read_file(file), file);
  const std::vector<std::pair<const char*, std::function<void(ArrayInfo&, Part&)>>> forged{
      {"a tile of 0 without sums",
       [](ArrayInfo&, Part& part) {
         part.tile = {0, 0}, part.sums.clear();
       }},
      {"a negative tile", [](ArrayInfo&, Part& part) { part.tile[0] = -5; }},
      {"a huge tile", [](ArrayInfo&, Part& part) { part.tile[1] = std::int64_t{1} << 62; }},
      {"no tile", [](ArrayInfo&, Part& part) { part.tile.clear(), part.sums.clear(); }},
      {"no sums", [](ArrayInfo&, Part& part) { part.sums.clear(); }},
      {"half a sum", [](ArrayInfo&, Part& part) { part.sums.resize(16); }},
      {"a huge shape",
       [](ArrayInfo& a, Part& part) {
         a.shape = {1LL << 31, 1LL << 31}, part.box = whole(a.shape);
       }},
      {"a huge shape with a 0",
       [](ArrayInfo& a, Part& part) {
         a.shape = {1LL << 62, 1LL << 62, 0}, part.box = whole(a.shape);
       }},
      {"a negative size", [](ArrayInfo& a, Part& part) { a.shape[0] = -1, part.box = whole(a.shape); }},
      {"many dimensions",
       [](ArrayInfo& a, Part& part) { a.shape.assign(100'000, 1), part.box = whole(a.shape); }},
      {"a range backwards", [](ArrayInfo&, Part& part) { std::swap(part.box[0].start, part.box[0].limit); }},
      {"another file", [](ArrayInfo&, Part& part) { part.file = 7; }},
      {"an offset beyond", [](ArrayInfo&, Part& part) { part.offset = ~std::uint64_t{0}; }}};
  for (const auto& [what, forge] : forged) {
    Manifest manifest = good;
    ArrayInfo& array = manifest.arrays.at("[\"large\"]");
    forge(array, array.parts.front());
    write_file(file, to_json(manifest));
    EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(saved.url)->verify(); }),
                HasSubstr("is damaged"))
        << what;
  }
  // A part that claims more than memory has, in a file that claims it, too: found before memory is taken.
  Manifest manifest = good;
  ArrayInfo& array = manifest.arrays.at("[\"small\"]");
  array.shape = {std::int64_t{1} << 45};
  Part& part = array.parts.front();
  part.box = whole(array.shape), part.tile = array.shape, part.sums.resize(kSumDigits);
  manifest.files.front().bytes = std::uint64_t{1} << 46;
  write_file(file, to_json(manifest));
  EXPECT_THAT(error_of<CheckpointError>([&] { restore_numbers(saved.url); }), HasSubstr("it has"));
  EXPECT_THAT(error_of<CheckpointError>([&] {
                restore(saved.url, std::map<std::string, Array>{{"small", Array()}}, {.partial = true});
              }),
              HasSubstr("it has"));
}

TEST(Damage, AnIndexThatNamesFilesElsewhere_IsRefused) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "hf");
  for (const char* name : {"../x.safetensors", "/x.safetensors", "", "a/../../x.safetensors"}) {
    write_file(folder.path() / "hf/model.safetensors.index.json",
               fmt::format("{{\"weight_map\": {{\"w\": \"{}\"}}}}", name));
    EXPECT_THAT(error_of<CheckpointError>([&] { Opened::open(folder.path() / "hf"); }),
                HasSubstr("names the file"));
  }
}

TEST(Manifest, PartsThatLeaveAGapOrOverlap_AreFound) {
  auto wrong = [](std::vector<Box> boxes) {
    ArrayInfo array{DType::kF32, "F32", {4, 4}, false, {}};
    for (Box& box : boxes) array.parts.push_back({box, 0, 0, "", {}, ""});
    return error_of<CheckpointError>([&] { check_coverage("w", array, "url"); });
  };
  EXPECT_THAT(wrong({}), HasSubstr("of w, f32[4,4], [0:4,0:4] is missing"));
  EXPECT_THAT(wrong({{{0, 2}, {0, 4}}, {{2, 4}, {0, 3}}}), HasSubstr("[2:4,3:4] is missing"));
  EXPECT_THAT(wrong({{{0, 3}, {0, 4}}, {{2, 4}, {0, 4}}}), HasSubstr("[2:3,0:4] is there twice"));
  EXPECT_THAT(wrong({{{0, 4}, {0, 5}}}), HasSubstr("outside of it"));
  ArrayInfo good{DType::kF32, "F32", {4, 4}, false, {}};
  for (const Box& box : {Box{{0, 4}, {0, 1}}, Box{{0, 1}, {1, 4}}, Box{{1, 4}, {1, 4}}, Box{{2, 2}, {0, 4}}})
    good.parts.push_back({box, 0, 0, "", {}, ""});
  check_coverage("w", good, "url");
}

}  // namespace
}  // namespace lockstep::checkpoint
