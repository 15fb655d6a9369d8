// SPDX-License-Identifier: Apache-2.0
// Every format's files, cut off at every byte and with every bit turned: an error that names the file, or
// records, but never a crash, and never other bytes where the format has checksums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <numeric>

#include "lockstep/base/log.h"
#include "lockstep/data/lines.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/tar.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/storage/file_calls.h"
#include "lockstep/testing/child.h"
#include "lockstep/testing/processes.h"

namespace lockstep::data {
namespace {

using namespace test;

/// The records that a damaged file may be read as, if it is not an error.
enum class Allowed {
  kNothing,  ///< it is always an error
  kSame,     ///< the same records: the damage is where nothing is
  kFewer,    ///< some of the records, from the first on
  kTwice,    ///< all records, and once more
  kAnything  ///< the format cannot tell
};

struct Format {
  std::string name;
  std::map<std::string, std::string> files;  ///< by name in a folder
  std::function<SourcePtr(const std::string& folder)> open;
  Allowed cut, flipped;
  Allowed joined = Allowed::kNothing;             ///< the file appended to itself; kTwice: its records twice
  Allowed trailing = Allowed::kNothing;           ///< with other bytes appended
  std::uint64_t flips_until = ~std::uint64_t{0};  ///< bits are turned in the first bytes only: headers
};

std::string windows_of(std::uint64_t count) {
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 100);
  return les(tokens);
}

std::vector<Format> formats() {
  const WindowOptions five{.length = 5, .segments = false};
  const WindowOptions segments{.length = 5, .segments = true};
  const std::string mds_record = le(std::uint32_t{4}) + le(std::uint32_t{8}) + "text" + le(std::int64_t{-3}) +
                                 le(std::uint8_t{16}) + le(std::uint8_t{1 << 2 | 1}) + le(std::uint16_t{2}) +
                                 "abcd";
  const std::string shard = mds_shard({mds_record, mds_record, mds_record});
  const std::string feature = example_feature("f", 2, proto(1, les(std::vector<float>{1, 2}))) +
                              example_feature("i", 3, proto(1, "\1\2\3")) +
                              example_feature("b", 1, proto(1, "bytes"));
  const std::string pax = "27 path=some/longer/name.x\n";
  return {{"tokens_u16",
           {{"a", windows_of(23)}},
           [=](const std::string& f) { return windows(tokens_u16(f + "/a"), five); },
           Allowed::kFewer,
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything},
          {"tokens_u32",
           {{"a", les(std::vector<std::uint32_t>(11, 7))}},
           [=](const std::string& f) { return windows(tokens_u32(f + "/a"), five); },
           Allowed::kFewer,
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything},
          {"tokens_llm_c",
           {{"a", llm_c_file(20240520, 1, 23, windows_of(23))}},
           [=](const std::string& f) { return windows(tokens_llm_c(f + "/a"), five); },
           Allowed::kNothing,
           Allowed::kSame,
           Allowed::kNothing,
           Allowed::kNothing,
           1024},
          {"tokens_megatron",
           {{"m.idx", megatron_index({3, 2, 0, 8, 10}, {0, 2, 3, 5})}, {"m.bin", windows_of(23)}},
           [=](const std::string& f) {
             const TokensPtr tokens = tokens_megatron(f + "/m");
             return concat({windows(tokens, segments), map(documents(tokens), "segments", [](Record r) {
                              r.emplace("segments", Field::text("none"));
                              return r;
                            })});
           },
           Allowed::kNothing,
           Allowed::kAnything,
           Allowed::kNothing,
           Allowed::kNothing},
          {"npy",
           {{"a.npy", npy_file("<f4", "(3, 2)", std::string(24, 'x'))},
            {"b.npy", npy_file("<i2", "(3,)", "abcdef")}},
           [](const std::string& f) {
             return npy({{"a", f + "/a.npy"}, {"b", f + "/b.npy"}});
           },
           Allowed::kNothing,
           Allowed::kAnything,
           Allowed::kNothing,
           Allowed::kNothing},
          {"lines",
           {{"a", "one\ntwo\r\n\nfour"}},
           [](const std::string& f) { return lines(f + "/a"); },
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything},
          {"jsonl",
           {{"a", "{\"a\": [1, 2.5], \"b\": {\"c\": \"\\u00e9\"}}\n\n{\"a\": null}\n"}},
           [](const std::string& f) { return jsonl(f + "/a"); },
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kTwice,
           Allowed::kNothing},
          {"tfrecord",
           {{"a", tfrecord_file({"one", "", std::string(40, 'z')})}},
           [](const std::string& f) { return tfrecord(f + "/a"); },
           Allowed::kFewer,
           Allowed::kNothing,
           Allowed::kTwice,
           Allowed::kNothing},
          {"tfrecord_examples",
           {{"a", tfrecord_file({proto(1, feature)})}},
           [](const std::string& f) { return tfrecord_examples(f + "/a"); },
           Allowed::kFewer,
           Allowed::kNothing,
           Allowed::kTwice,
           Allowed::kNothing},
          {"example",
           {{"a", proto(1, feature)}},
           [](const std::string& f) {
             return map(in_memory({{{"x", Field::text(read_file(f + "/a"))}}}), "a in " + f,
                        [](Record r) { return fields_of_example(field(r, "x").text()); });
           },
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything,
           Allowed::kAnything},
          {"mds",
           {{"index.json", R"({"version": 2, "shards": [)" +
                               mds_index_shard("a.mds", shard.size(), 3, R"("s", "i", "a")",
                                               R"("str", "int", "ndarray")", "null, 8, null") +
                               "]}"},
            {"a.mds", shard}},
           [](const std::string& f) { return mds(f); },
           Allowed::kNothing,
           Allowed::kAnything,
           Allowed::kNothing,
           Allowed::kNothing},
          {"tar",
           {{"a", tar_member("d/1.x", "one") + tar_member("d/1.y", std::string(600, 'y')) +
                      tar_member("h", pax, 'x') + tar_member("s", "pax") +
                      tar_member("l", "name/of/3.z" + std::string(1, '\0'), 'L') + tar_member("t", "long") +
                      tar_end()}},
           [](const std::string& f) { return tar(f + "/a"); },
           Allowed::kSame,
           Allowed::kAnything,
           Allowed::kTwice,
           Allowed::kNothing}};
}

/// Thousands of indexes are written here; none has to outlive a loss of power.
class WithoutSync : public storage::FileCalls {
 public:
  int fsync(int) override { return 0; }
};

class Damage : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    logging::set_level(logging::Level::kWarning);  // Indexes are made anew, over and over.
    write_all();
    whole_ = read_all(*GetParam().open(folder()));
    ASSERT_FALSE(whole_.empty());
  }
  void TearDown() override { logging::set_level(logging::Level::kInfo); }

  std::string folder() const { return folder_.path(); }
  void write_all() {
    for (const auto& [name, bytes] : GetParam().files) write_file(folder_.path() / name, bytes);
  }

  /// Takes the indexes away, so that they are made of the damaged file. (One that is replaced would be waited
  /// for, too.)
  void remove_indexes() {
    for (const auto& [name, bytes] : GetParam().files) {
      for (const char* kind : {"lines", "jsonl", "tfrecord", "tar"})
        std::filesystem::remove(folder_.path() / (name + "." + kind + ".index"));
    }
  }

  /// Reads everything: as allowed, or as an error that names a file of the folder. Any other exception fails
  /// the test.
  void expect_read_as(Allowed allowed, const std::string& damage) {
    SCOPED_TRACE(damage);
    std::vector<Record> found;
    try {
      found = read_all(*GetParam().open(folder()));
    } catch (const DataError& error) {
      ++errors_;
      ASSERT_THAT(error.what(), ::testing::HasSubstr(folder())) << "the error names no file";
      return;
    }
    if (allowed == Allowed::kNothing) FAIL() << "the damage was not found";
    if (allowed == Allowed::kSame) {
      ASSERT_EQ(found, whole_);
    }
    if (allowed == Allowed::kTwice) {
      std::vector<Record> twice = whole_;
      twice.insert(twice.end(), whole_.begin(), whole_.end());
      ASSERT_EQ(found, twice);
    }
    if (allowed == Allowed::kFewer) {
      ASSERT_LE(found.size(), whole_.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], whole_[i]);
    }
  }

  WithoutSync calls_;
  storage::ScopedFileCalls scoped_calls_{calls_};
  testing::TemporaryFolder folder_;
  std::vector<Record> whole_;
  int errors_ = 0;
};

TEST_P(Damage, AFileCutOffAnywhere_IsNeverReadWrongly) {
  for (const auto& [name, bytes] : GetParam().files) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      write_file(folder_.path() / name, bytes.substr(0, size));
      remove_indexes();
      expect_read_as(GetParam().cut, name + " cut off at " + std::to_string(size));
      if (HasFatalFailure()) return;
    }
    write_file(folder_.path() / name, bytes);
  }
  if (GetParam().name != "lines") {
    EXPECT_GT(errors_, 0);
  }
}

TEST_P(Damage, AFlippedBitAnywhere_CrashesNothing) {
  for (const auto& [name, bytes] : GetParam().files) {
    for (std::size_t at = 0; at < std::min<std::uint64_t>(bytes.size(), GetParam().flips_until); ++at) {
      // Large files have one bit of each byte flipped.
      const int first = bytes.size() > 2000 ? static_cast<int>(at % 8) : 0;
      for (int bit = first; bit < (bytes.size() > 2000 ? first + 1 : 8); ++bit) {
        std::string turned = bytes;
        turned[at] = static_cast<char>(turned[at] ^ (1 << bit));
        write_file(folder_.path() / name, turned);
        remove_indexes();
        expect_read_as(GetParam().flipped,
                       name + " byte " + std::to_string(at) + " bit " + std::to_string(bit));
        if (HasFatalFailure()) return;
      }
    }
    write_file(folder_.path() / name, bytes);
  }
}

TEST_P(Damage, TrailingBytes_AreReadOrRefused) {
  for (const auto& [name, bytes] : GetParam().files) {
    const std::map<std::string, Allowed> behind = {{bytes, GetParam().joined},
                                                   {"x", GetParam().trailing},
                                                   {"other bytes", GetParam().trailing},
                                                   {std::string(2000, 'x'), GetParam().trailing}};
    for (const auto& [more, allowed] : behind) {
      write_file(folder_.path() / name, bytes + more);
      remove_indexes();
      expect_read_as(allowed, name + " with " + std::to_string(more.size()) + " bytes behind it");
      if (HasFatalFailure()) return;
    }
    write_file(folder_.path() / name, bytes);
  }
}

LOCKSTEP_CHILD(reads_more_shards_than_it_may_open_files) {
  const rlimit limit{64, 64};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  WithoutSync calls;
  storage::ScopedFileCalls scoped_calls{calls};
  testing::TemporaryFolder folder;
  for (const Format& format : formats()) {
    std::vector<SourcePtr> shards;
    for (int i = 0; i < 100; ++i) {
      const std::filesystem::path shard = folder.path() / format.name / std::to_string(i);
      for (const auto& [name, bytes] : format.files) write_file(shard / name, bytes);
      shards.push_back(format.open(shard));
    }
    const std::vector<Record> one = read_all(*shards[0]);
    for (int round = 0; round < 2; ++round) {
      for (const SourcePtr& shard : shards) ASSERT_EQ(read_all(*shard), one) << format.name;
    }
  }
}

TEST(Formats, MoreShardsThanOpenFiles_AreAllRead) {
  const auto result = testing::run_processes({.child = "reads_more_shards_than_it_may_open_files"})[0];
  EXPECT_EQ(result.exit_code, 0) << result.log;
}

TEST_P(Damage, ADamagedIndex_ChangesNoRecord) {
  // Indexes stand beside the files; formats without an index have none.
  std::map<std::string, std::string> indexes;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (entry.path().extension() == ".index") indexes[entry.path().filename()] = read_file(entry.path());
  }
  for (const auto& [name, bytes] : indexes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      write_file(folder_.path() / name, bytes.substr(0, at));
      expect_read_as(Allowed::kSame, name + " cut off at " + std::to_string(at));
      for (int bit = 0; bit < 8; ++bit) {
        std::string turned = bytes;
        turned[at] = static_cast<char>(turned[at] ^ (1 << bit));
        write_file(folder_.path() / name, turned);
        expect_read_as(Allowed::kSame, name + " byte " + std::to_string(at) + " bit " + std::to_string(bit));
        if (HasFatalFailure()) return;
      }
    }
    write_file(folder_.path() / name, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Damage, ::testing::ValuesIn(formats()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::data
