// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/fail.h"
#include "lockstep/data/csv.h"
#include "lockstep/data/file.h"
#include "lockstep/data/lines.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/parquet.h"
#include "lockstep/data/tar.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/testing/gzip.h"
#include "tests/parsers/fuzz.h"
#include "tests/parsers/memory_file.h"

namespace lockstep::parsers {
namespace {

using namespace data;
using namespace data::test;

/// Files in memory where there is such a folder.
class Data : public ::testing::Test {
 protected:
  Data() {
    const std::filesystem::path memory = "/dev/shm";
    folder_ = (access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
              ("parsers-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~Data() override { std::filesystem::remove_all(folder_); }

  /// Only this file in the folder: no index of another one.
  std::string only(const std::string& name, const std::string& bytes) {
    for (const auto& each : std::filesystem::directory_iterator(folder_)) std::filesystem::remove_all(each);
    return with(name, bytes);
  }
  std::string with(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  static void read_some(const Source& source) {
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(source.size(), 20); ++i) to_string(source.read(i));
    if (source.size() > 20) source.read(source.size() - 1);
  }
  IndexOptions quiet() const { return {.progress = false}; }

  std::filesystem::path folder_;
};

TEST_F(Data, MutatedNpyHeaders_AreReadOrRefused) {
  fuzz<DataError>(
      {.name = "npy header",
       .seeds = {npy_file("<f4", "(2, 3)", std::string(24, 'x')),
                 npy_file("|b1", "(4,)", std::string(4, '\1')), npy_file("<i8", "()", std::string(8, '\2')),
                 npy_file("<f8", "(1, 2)", std::string(16, 'y'), "True")},
       .read = [](const std::string& bytes) {
         const data::internal::File file("npy", std::make_unique<MemoryFile>(bytes));
         data::internal::read_npy_header(file);
       }});
}

TEST_F(Data, MutatedNpyFiles_AreReadOrRefused) {
  fuzz<DataError>({.name = "npy",
                   .seeds = {npy_file("<f4", "(2, 3)", std::string(24, 'x')),
                             npy_file("<i2", "(3,)", std::string(6, '\1'))},
                   .read =
                       [&](const std::string& bytes) {
                         read_some(*npy({{"x", only("x.npy", bytes)}}));
                       },
                   .mutations = 1000});
}

TEST_F(Data, MutatedTarFiles_AreReadOrRefused) {
  const std::string pax = "16 path=b/8.jpg\n";
  // The sums of headers are made right again in half of the inputs.
  int turn = 0;
  fuzz<DataError>(
      {.name = "tar",
       .seeds = {tar_member("a/7.jpg", "picture") + tar_member("a/7.cls", "3") +
                     tar_member("a/8.jpg", std::string(600, 'p')) + tar_end(),
                 tar_member("folder/", "", '5') + tar_member("x", pax, 'x') + tar_member("ignored", "data") +
                     tar_member("././@LongLink", std::string(150, 'n'), 'L') + tar_member("n", "data") +
                     tar_end()},
       .read = [&](const std::string& bytes) { read_some(*tar(only("x.tar", bytes), quiet())); },
       .wrap =
           [&](const std::string& inner) {
             std::string bytes = inner;
             if (++turn % 2 == 0) return bytes;
             for (std::size_t at = 0; at + 512 <= bytes.size(); at += 512) {
               if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
               bytes.replace(at + 148, 8, tar_checksum(std::string_view(bytes).substr(at, 512)));
             }
             return bytes;
           },
       .mutations = 2000});
}

TEST_F(Data, MutatedTfRecords_AreReadOrRefused) {
  fuzz<DataError>({.name = "tfrecord",
                   .seeds = {tfrecord_file({"first", "", std::string(300, 'x')}), tfrecord_file({})},
                   .read = [&](const std::string& bytes) { read_some(*tfrecord(only("x", bytes), quiet())); },
                   .mutations = 1000});
}

TEST_F(Data, MutatedExamples_AreReadOrRefused) {
  const std::string floats = proto(1, les(std::vector<float>{1, 2})), integers = proto(1, "\x01\x96\x01");
  fuzz<DataError>({.name = "tf.train.Example",
                   .seeds = {proto(1, example_feature("image", 1, proto(1, "bytes"))),
                             proto(1, example_feature("x", 2, floats)),
                             proto(1, example_feature("many", 1, proto(1, "a") + proto(1, "b"))),
                             proto(1, example_feature("n", 3, integers) + example_feature("x", 2, floats))},
                   .read = [](const std::string& bytes) { to_string(fields_of_example(bytes)); }});
}

TEST_F(Data, MutatedMdsIndexesAndShards_AreReadOrRefused) {
  const auto index_of = [](const std::string& shard, std::size_t samples, const std::string& names,
                           const std::string& encodings, const std::string& sizes) {
    return R"({"version": 2, "shards": [)" +
           mds_index_shard("shard.mds", shard.size(), samples, names, encodings, sizes) + "]}";
  };
  const auto read = [&](const std::string& index, const std::string& shard) {
    only("index.json", index);
    with("shard.mds", shard);
    read_some(*mds(folder_));
  };
  const std::string texts = mds_shard({le(std::uint32_t{4}) + le(std::int64_t{7}) + "text",
                                       le(std::uint32_t{9}) + le(std::int64_t{8}) + "more text"});
  const auto index_of_texts = [&](const std::string& shard) {
    return index_of(shard, 2, R"("number", "text")", R"("int", "str")", "8, null");
  };
  fuzz<DataError>({.name = "mds index",
                   .seeds = {index_of_texts(texts)},
                   .read = [&](const std::string& bytes) { read(bytes, texts); },
                   .mutations = 2000});
  fuzz<DataError>({.name = "mds shard",
                   .seeds = {texts},
                   .read = [&](const std::string& bytes) { read(index_of_texts(bytes), bytes); },
                   .mutations = 1000});
  // Arrays whose dtype and shape are in the record: i32[2,2].
  const std::string array = std::string("\x21\x08\x02\x02", 4) + les(std::vector<std::int32_t>{1, 2, 3, 4});
  fuzz<DataError>({.name = "mds array",
                   .seeds = {mds_shard({le(static_cast<std::uint32_t>(array.size())) + array})},
                   .read =
                       [&](const std::string& bytes) {
                         read(index_of(bytes, 1, R"("x")", R"("ndarray")", "null"), bytes);
                       },
                   .mutations = 1000});
}

TEST_F(Data, MutatedMegatronIndexes_AreReadOrRefused) {
  fuzz<DataError>({.name = "megatron index",
                   .seeds = {megatron_index({3, 1, 2}, {0, 1, 3}), megatron_index({6}, {0, 1})},
                   .read =
                       [&](const std::string& bytes) {
                         only("x.idx", bytes);
                         with("x.bin", les(std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6}));
                         const TokensPtr tokens = tokens_megatron(folder_ / "x");
                         for (std::uint64_t i = 0; i <= std::min<std::uint64_t>(tokens->documents(), 20); ++i)
                           tokens->document_begin(i);
                         read_some(*documents(tokens));
                         if (tokens->size() >= 2)
                           read_some(*windows(tokens, {.length = 2, .segments = tokens->documents() > 0}));
                       },
                   .mutations = 1000});
}

TEST_F(Data, MutatedTokenFiles_AreReadOrRefused) {
  fuzz<DataError>({.name = "llm.c tokens",
                   .seeds = {llm_c_file(20240520, 1, 4, les(std::vector<std::uint16_t>{1, 2, 3, 4})),
                             llm_c_file(20240801, 7, 2, les(std::vector<std::uint32_t>{1, 2}))},
                   .read =
                       [&](const std::string& bytes) {
                         read_some(*windows(tokens_llm_c(only("x.bin", bytes)), {.length = 2}));
                       },
                   .mutations = 1000});
}

TEST_F(Data, MutatedTables_AreReadOrRefused) {
  const std::string table = "1,2.5,-3e4\n4,5,6\r\n\n7,8,9";
  fuzz<DataError>({.name = "csv",
                   .seeds = {table, testing::gzip(table)},
                   .read = [&](const std::string& bytes) { read_csv(only("x.csv", bytes)); },
                   .mutations = 2000});
}

TEST_F(Data, MutatedLinesOfJson_AreReadOrRefused) {
  const std::string object =
      R"({"text": "a", "n": 3, "x": 1.5, "ok": true, "v": [[1, 2], [3, 4]], "o": {"a": [null]}})";
  fuzz<DataError>({.name = "json object",
                   .seeds = {object, R"({"v": [1.5, 2], "w": [[1], [2, 3]], "z": null, "e": []})"},
                   .read = [](const std::string& bytes) { to_string(fields_of_json(bytes)); }});
  fuzz<DataError>({.name = "jsonl",
                   .seeds = {object + "\n\n" + object + "\r\n", object},
                   .read = [&](const std::string& bytes) { read_some(*jsonl(only("x", bytes), quiet())); },
                   .mutations = 1000});
}

TEST_F(Data, MutatedIndexes_AreMadeAgain) {
  const std::string text = "one\ntwo\nthree\n";
  const std::string url = only("x.txt", text);
  read_some(*lines(url, quiet()));
  const std::string index = read_file(folder_ / "x.txt.lines.index");
  ASSERT_FALSE(index.empty());
  fuzz<DataError>({.name = "index",
                   .seeds = {index},
                   .read =
                       [&](const std::string& bytes) {
                         only("x.txt", text);
                         with("x.txt.lines.index", bytes);
                         const SourcePtr source = lines(folder_ / "x.txt", quiet());
                         if (source->size() != 3 || source->read(2).at("text").text() != "three")
                           fail("the index was believed");
                         if (bytes != index) fail<DataError>("made again, or the same");
                       },
                   .mutations = 1000});
}

TEST_F(Data, MutatedParquetFiles_AreReadOrRefused) {
  const std::string url = std::string(LOCKSTEP_DATA_TESTDATA) + "/";
  std::vector<std::string> seeds;
  for (const auto& each : std::filesystem::directory_iterator(url))
    if (each.path().extension() == ".parquet") seeds.push_back(read_file(each.path()));
  ASSERT_FALSE(seeds.empty());
  std::erase_if(seeds, [&](const std::string& seed) {
    try {
      read_some(*parquet(only("x.parquet", seed)));
      return false;
    } catch (const DataError&) {
      return true;  // no Arrow, or what is refused
    }
  });
  if (seeds.empty()) GTEST_SKIP() << "Arrow is not there: scripts/setup --parquet";
  fuzz<DataError>({.name = "parquet",
                   .seeds = seeds,
                   .read = [&](const std::string& bytes) { read_some(*parquet(only("x.parquet", bytes))); },
                   .mutations = 300,
                   .memory = std::size_t{256} << 20});
}

}  // namespace
}  // namespace lockstep::parsers
