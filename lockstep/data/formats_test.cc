// SPDX-License-Identifier: Apache-2.0
// Tests of the records that each format's files are read as.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/data/lines.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/tar.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/testing/errors.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using namespace test;

class FormatsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view bytes) {
    write_file(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  testing::TemporaryFolder folder_;
};

std::vector<std::int32_t> tokens_of(const Source& source, std::uint64_t i) {
  return field(source.read(i), "tokens").values<std::int32_t>();
}

TEST_F(FormatsTest, TokenFilesOfEachWidth_GiveTheirWindows) {
  const std::vector<std::uint16_t> narrow = {1, 2, 3, 4, 5, 6, 7, 65535};
  const std::vector<std::uint32_t> wide = {1, 2, 3, 4, 5, 6, 7, 65535};
  for (const TokensPtr& tokens :
       {tokens_u16(write("a.u16", les(narrow))), tokens_u32(write("a.u32", les(wide))),
        tokens_llm_c(write("a1.bin", llm_c_file(20240520, 1, 8, les(narrow)))),
        tokens_llm_c(write("a7.bin", llm_c_file(20240801, 7, 8, les(wide))))}) {
    SCOPED_TRACE(tokens->url());
    EXPECT_EQ(tokens->size(), 8u);
    const SourcePtr overlapping = windows(tokens, {.length = 4, .stride = 3});
    ASSERT_EQ(overlapping->size(), 2u);
    EXPECT_THAT(tokens_of(*overlapping, 1), ElementsAre(4, 5, 6, 7));
    const SourcePtr apart = windows(tokens, {.length = 4});
    ASSERT_EQ(apart->size(), 2u);
    EXPECT_THAT(tokens_of(*apart, 1), ElementsAre(5, 6, 7, 65535));
    EXPECT_EQ(windows(tokens, {.length = 9})->size(), 0u);
  }
}

TEST_F(FormatsTest, TokensAbove31Bits_AreErrors) {
  const SourcePtr source =
      windows(tokens_u32(write("a.u32", les(std::vector<std::uint32_t>{1, 0x80000000u}))), {.length = 2});
  EXPECT_THAT(error_of<DataError>([&] { source->read(0); }),
              HasSubstr("a.u32 at byte 4: token 1 is 2147483648"));
}

TEST_F(FormatsTest, MegatronFiles_GiveDocumentsAndSegments) {
  // Five sequences, three documents: of sequences 0 and 1, of 2, of 3 and 4. The third sequence is empty.
  write("m.idx", megatron_index({3, 2, 0, 4, 1}, {0, 2, 3, 5}));
  write("m.bin", les(std::vector<std::uint16_t>{10, 11, 12, 20, 21, 40, 41, 42, 43, 50}));
  const TokensPtr tokens = tokens_megatron(folder_.path() / "m");
  const SourcePtr all = documents(tokens);
  ASSERT_EQ(all->size(), 3u);
  EXPECT_THAT(tokens_of(*all, 0), ElementsAre(10, 11, 12, 20, 21));
  EXPECT_THAT(tokens_of(*all, 1), ElementsAre());
  EXPECT_THAT(tokens_of(*all, 2), ElementsAre(40, 41, 42, 43, 50));
  const SourcePtr packed = windows(tokens, {.length = 5, .stride = 4, .segments = true});
  ASSERT_EQ(packed->size(), 2u);
  EXPECT_THAT(tokens_of(*packed, 1), ElementsAre(21, 40, 41, 42, 43));
  EXPECT_THAT(field(packed->read(0), "segments").values<std::int32_t>(), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(field(packed->read(1), "segments").values<std::int32_t>(), ElementsAre(0, 1, 1, 1, 1));
}

TEST_F(FormatsTest, SeveralNpyFiles_AreTheFieldsOfRecords) {
  const SourcePtr source =
      npy({{"x", write("x.npy", npy_file("<f4", "(3, 2)", les(std::vector<float>{1, 2, 3, 4, 5, 6})))},
           {"y", write("y.npy", npy_file("<i8", "(3,)", les(std::vector<std::int64_t>{7, 8, 9})))},
           {"z", write("z.npy", npy_file("|b1", "(3, 0)", ""))}});
  ASSERT_EQ(source->size(), 3u);
  EXPECT_EQ(to_string(source->read(1)), "{x: f32[2], y: i64[], z: bool[0]}");
  EXPECT_THAT(field(source->read(1), "x").values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(field(source->read(2), "y").values<std::int64_t>(), ElementsAre(9));
}

TEST_F(FormatsTest, NpyFilesThatCannotBeRecords_AreErrors) {
  const std::string four = les(std::vector<float>{1, 2, 3, 4});
  for (auto [file, expected] : std::vector<std::pair<std::string, std::string>>{
           {npy_file(">f4", "(2, 2)", four), "values of type '>f4' are not supported"},
           {npy_file("|V2", "(8,)", four), "values of type '|V2' are not supported"},
           {npy_file("<f4", "(2, 2)", four, "True"), "Fortran order"},
           {npy_file("<f4", "()", four.substr(0, 4)), "no dimension"},
           {npy_file("<f4", "(2, 3)", four), "do not fit the 16 bytes"},
           {npy_file("<f4", "(4611686018427387904, 4)", four), "too large"},
           {npy_file("<f4", "(2, 4611686018427387904)", four), "too large"},
           {npy_file("<f4", "(99999999999999999999,)", four), "too large"},
           {"\x93NUMPX", "not a .npy file"}}) {
    const std::string url = write("a.npy", file);
    EXPECT_THAT(error_of<DataError>([&] { npy({{"a", url}}); }), HasSubstr(expected));
  }
  const std::string a = write("a.npy", npy_file("<f4", "(4,)", four)),
                    b = write("b.npy", npy_file("<f4", "(2, 2)", four));
  EXPECT_THAT(error_of<DataError>([&] { npy({{"a", a}, {"b", b}}); }), HasSubstr("b.npy has 2 rows, but"));
}

TEST_F(FormatsTest, Lines_AreGivenWithoutTheirLineEndings) {
  auto texts = [&](const std::string& bytes) {
    const SourcePtr source = lines(write("a.txt", bytes));
    std::vector<std::string> found;
    for (const Record& record : read_all(*source)) found.emplace_back(field(record, "text").text());
    return found;
  };
  EXPECT_THAT(texts("one\r\ntwo\n\nfour\n"), ElementsAre("one", "two", "", "four"));
  EXPECT_THAT(texts("one\ntwo"), ElementsAre("one", "two"));
  EXPECT_THAT(texts("\n"), ElementsAre(""));
  EXPECT_THAT(texts(""), ElementsAre());
}

TEST_F(FormatsTest, JsonLines_GiveTheirMembersAsFields) {
  const SourcePtr source = jsonl(write("a.jsonl",
                                       "\n  \n{\"text\": \"h\\u00e9\", \"id\": 7, \"score\": 0.5, "
                                       "\"ok\": true, \"none\": null}\n \r\n\n"
                                       "{\"tokens\": [1, 2, 3], \"grid\": [[1, 2.5], [3, 4]], "
                                       "\"mixed\": [1, \"a\"], \"empty\": []}"));
  ASSERT_EQ(source->size(), 2u);
  EXPECT_EQ(to_string(source->read(0)), "{id: i64[], ok: bool[], score: f64[], text: u8[3]}");
  EXPECT_EQ(field(source->read(0), "text").text(), "h\xc3\xa9");
  EXPECT_EQ(to_string(source->read(1)), "{empty: i64[0], grid: f64[2,2], mixed: u8[7], tokens: i64[3]}");
  EXPECT_THAT(field(source->read(1), "grid").values<double>(), ElementsAre(1, 2.5, 3, 4));
  EXPECT_EQ(field(source->read(1), "mixed").text(), "[1,\"a\"]");
}

TEST_F(FormatsTest, DamagedJson_IsNamedByRecordAndPlace) {
  const SourcePtr source =
      jsonl(write("a.jsonl", "{}\n{\"a\": 1,}\n[1]\n" + std::string(100000, '[') + "\n"));
  EXPECT_EQ(source->read(0).size(), 0u);
  EXPECT_THAT(error_of<DataError>([&] { source->read(1); }),
              HasSubstr("a.jsonl at byte 3: record 1: this is not JSON"));
  EXPECT_THAT(error_of<DataError>([&] { source->read(2); }), HasSubstr("expected a JSON object, got array"));
  EXPECT_THAT(error_of<DataError>([&] { source->read(3); }), HasSubstr("nested deeper"));
}

TEST_F(FormatsTest, TfRecords_GiveTheirBytesAndExamples) {
  EXPECT_EQ(internal::crc32c("123456789"), 0xe3069283u);  // The check value of the CRC's definition.
  const std::string packed_floats = proto(1, les(std::vector<float>{1.5f, -2}));
  const std::string single_float = std::string("\x0d", 1) + le(3.0f);
  const std::string integers = std::string("\x08\x07", 2) + proto(1, std::string("\x01\xac\x02", 3)) +
                               std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
  const std::string example =
      proto(1, example_feature("f", 2, packed_floats + single_float) + example_feature("i", 3, integers) +
                   example_feature("b", 1, proto(1, "bytes")) +
                   example_feature("l", 1, proto(1, "x") + proto(1, "yz")));
  const std::string url = write("a.tfrecord", tfrecord_file({"", example, std::string(3000, '\xff')}));
  EXPECT_EQ(field(tfrecord(url)->read(1), "record").text(), example);
  EXPECT_EQ(tfrecord(url)->size(), 3u);
  const SourcePtr source = tfrecord_examples(url);
  EXPECT_EQ(source->read(0).size(), 0u);
  const Record record = source->read(1);
  EXPECT_EQ(to_string(record), "{b: u8[5], f: f32[3], i: i64[4], l/0: u8[1], l/1: u8[2]}");
  EXPECT_THAT(field(record, "f").values<float>(), ElementsAre(1.5f, -2, 3));
  EXPECT_THAT(field(record, "i").values<std::int64_t>(), ElementsAre(7, 1, 300, -1));
  EXPECT_THAT(error_of<DataError>([&] { source->read(2); }),
              HasSubstr("record 2: this is not a tf.train.Example"));
  EXPECT_THAT(error_of<DataError>([&] { tfrecord(write("a.gz", "\x1f\x8b" + std::string(30, 'x'))); }),
              HasSubstr("compressed by gzip"));
}

TEST_F(FormatsTest, MdsColumnsOfEveryEncoding_AreRead) {
  const std::string array = le(std::uint8_t{34}) + le(std::uint8_t{2 << 2 | 1}) + le(std::uint16_t{1}) +
                            le(std::uint16_t{2}) + les(std::vector<float>{1, 2});
  const std::string typed = le(std::uint8_t{1 << 2 | 0}) + le(std::uint8_t{3}) + std::string("\1\2\3", 3);
  const std::string fixed = les(std::vector<std::int16_t>{4, 5, 6, 7});
  auto record = [&](const std::string& text) {
    return le(static_cast<std::uint32_t>(text.size())) + le(static_cast<std::uint32_t>(array.size())) +
           le(static_cast<std::uint32_t>(typed.size())) + text + le(std::int64_t{-3}) + le(2.5f) + array +
           typed + fixed;
  };
  const std::string names = R"("s", "i", "f", "a", "t", "x")",
                    encodings = R"("str", "int", "float32", "ndarray", "ndarray:uint8", "ndarray:int16:2,2")",
                    sizes = "null, 8, 4, null, null, 8";
  const std::string first = mds_shard({record("one"), record("three")}), second = mds_shard({record("")});
  write("d/shard.00000.mds", first);
  write("d/shard.00001.mds", second);
  write("d/index.json",
        R"({"version": 2, "shards": [)" +
            mds_index_shard("shard.00000.mds", first.size(), 2, names, encodings, sizes) + ", " +
            mds_index_shard("shard.00001.mds", second.size(), 1, names, encodings, sizes) + "]}");
  const SourcePtr source = mds(folder_.path() / "d");
  ASSERT_EQ(source->size(), 3u);
  EXPECT_EQ(to_string(source->read(1)), "{a: f32[1,2], f: f32[], i: i64[], s: u8[5], t: u8[3], x: i16[2,2]}");
  EXPECT_EQ(field(source->read(1), "s").text(), "three");
  EXPECT_EQ(field(source->read(2), "s").text(), "");
  EXPECT_THAT(field(source->read(2), "i").values<std::int64_t>(), ElementsAre(-3));
  EXPECT_THAT(field(source->read(2), "a").values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(field(source->read(0), "x").values<std::int16_t>(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(source->place(2), (folder_.path() / "d/shard.00001.mds").string() + " record 0");
}

TEST_F(FormatsTest, MdsFoldersThatCannotBeRead_AreErrors) {
  auto error = [&](const std::string& shard) {
    write("d/index.json", R"({"version": 2, "shards": [)" + shard + "]}");
    return error_of<DataError>([&] { mds(folder_.path() / "d")->read(0); });
  };
  EXPECT_THAT(error(mds_index_shard("a.mds", 9, 1, R"("x")", R"("tensor")", "null")),
              HasSubstr("shard 0: column 'x' has an unknown encoding 'tensor'"));
  EXPECT_THAT(error(mds_index_shard("a.mds", 9, 1, R"("x")", R"("int")", "4")),
              HasSubstr("is said to have 4 bytes, expected 8"));
  EXPECT_THAT(error(mds_index_shard("a.mds", 9, 1, R"("x", "y")", R"("int")", "8")),
              HasSubstr("different numbers of names"));
  EXPECT_THAT(error(mds_index_shard("../a.mds", 9, 1, R"("x")", R"("int")", "8")), HasSubstr("outside"));
  std::string zipped = mds_index_shard("a.mds", 9, 1, R"("x")", R"("int")", "8");
  zipped.replace(zipped.find("\"zip_data\": null"), 16, R"("zip_data": {"basename": "a.mds.zstd"})");
  EXPECT_THAT(error(zipped), HasSubstr("compressed form only"));
}

TEST_F(FormatsTest, TarMembersOfOneName_FormOneRecord) {
  const std::string long_name = "deep/" + std::string(150, 'n') + "/7.jpg";
  const std::string pax = "path=pax/9.txt\n";
  const std::string pax_entry = std::to_string(pax.size() + 3) + " " + pax;
  const std::string url = write(
      "a.tar", tar_member("dir/", "", '5') + tar_member("dir/1.jpg", "one") +
                   tar_member("dir/1.seg.png", "mask") + tar_member("dir/2.jpg", std::string(600, '2')) +
                   tar_member("link", "", '2') + tar_member("dir.v2/1", "no dot") +
                   tar_member("dir/._2.cls", "of macOS") + tar_member("dir/2.cls", "7") +
                   tar_member("README", "no dot") + tar_member(".hidden", "nothing before") +
                   tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("cut", "long") +
                   tar_member("x", pax_entry, 'x') + tar_member("short", "pax") +
                   tar_member("8.bin", "binary", '0', std::string("\x80\0\0\0\0\0\0\0\0\0\0\6", 12)) +
                   tar_member("q.txt", "prefix", '0', "", "up/per") + tar_end());
  const SourcePtr source = tar(url);
  std::vector<std::string> found;
  for (const Record& record : read_all(*source)) {
    std::string line(field(record, "__key__").text());
    for (const auto& [name, value] : record) {
      if (name != "__key__") line += " " + name + "=" + std::string(value.text().substr(0, 8));
    }
    found.push_back(line);
  }
  EXPECT_THAT(found, ElementsAre("dir/1 jpg=one seg.png=mask", "dir/2 cls=7 jpg=22222222",
                                 "deep/" + std::string(150, 'n') + "/7 jpg=long", "pax/9 txt=pax",
                                 "8 bin=binary", "up/per/q txt=prefix"));
}

TEST_F(FormatsTest, TarFilesThatCannotBeRead_AreErrors) {
  auto error = [&](const std::string& bytes) {
    const std::string url = write("a.tar", bytes);
    return error_of<DataError>([&] { read_all(*tar(url)); });
  };
  EXPECT_THAT(error(tar_member("a.x", "1") + tar_member("a.x", "2") + tar_end()), HasSubstr("two files a.x"));
  EXPECT_THAT(error(tar_member("a.x", "1")), HasSubstr("without an empty block"));
  EXPECT_THAT(
      error(tar_member("a.x", "1", '0', std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))),
      HasSubstr("size is too large"));
  EXPECT_THAT(error(tar_member("a.x", "1", '0', "77777777777")), HasSubstr("the file is cut off"));
  EXPECT_THAT(error(tar_member("a.x", "1", 'S') + tar_end()), HasSubstr("kind 'S'"));
  EXPECT_THAT(error("\x1f\x8b" + std::string(2000, 'x')), HasSubstr("compressed by gzip"));
}

TEST_F(FormatsTest, JoinedTarFiles_AreReadOneAfterTheOther) {
  const std::string one = tar_member("a.x", "1") + tar_member("a.y", "2") + tar_end(),
                    // As GNU tar fills it up, to 20 blocks.
      two = tar_member("a.x", "3") + tar_member("b.x", "4") + std::string(10240 - 2048, '\0'),
                    empty = tar_end();
  auto found = [&](const std::string& bytes) {
    std::string all;
    for (const Record& record : read_all(*tar(write("a.tar", bytes)))) {
      all += std::string(field(record, "__key__").text()) + ":";
      for (const auto& [name, value] : record)
        if (name != "__key__") all += name + std::string(value.text());
      all += " ";
    }
    return all;
  };
  EXPECT_EQ(found(one), "a:x1y2 ");
  EXPECT_EQ(found(one + two), "a:x1y2 a:x3 b:x4 ");
  EXPECT_EQ(found(two + one), "a:x3 b:x4 a:x1y2 ");
  EXPECT_EQ(found(empty + one + empty + two + empty), "a:x1y2 a:x3 b:x4 ");
  EXPECT_EQ(found(one + std::string(300, '\0')), "a:x1y2 ") << "zeros that fill no block";
  EXPECT_EQ(found(empty), "");
  auto error = [&](const std::string& bytes) {
    return error_of<DataError>([&] { tar(write("a.tar", bytes)); });
  };
  EXPECT_THAT(error(one + std::string(600, 'x')),
              HasSubstr("a.tar at byte 3072: other bytes than a tar file follow the end"));
  EXPECT_THAT(error(one + "x"), HasSubstr("a.tar at byte 3072: 512 bytes were expected"));
  EXPECT_THAT(error(one + tar_member("c.x", "5")), HasSubstr("without an empty block"));
}

TEST_F(FormatsTest, FileThatChangedInItsMiddle_GivesNoWrongRecord) {
  // The index is of the first version; size and what the fingerprint sees are those of the second, too.
  struct Change {
    std::string name, first, second;
    std::function<SourcePtr(const std::string&)> open;
  };
  std::string lines_1, lines_2, json_1, json_2;
  for (int i = 0; i < 2000; ++i) {
    const std::string letters(20, static_cast<char>('a' + i % 26));
    // Lines 1500 to 1505: as long in all, but not each.
    const int longer = i >= 1500 && i < 1506 ? (i % 2 == 0 ? 10 : -10) : 0;
    lines_1 += letters + "\n";
    lines_2 += letters.substr(0, static_cast<std::size_t>(std::min(20, 20 + longer))) +
               std::string(static_cast<std::size_t>(std::max(0, longer)), letters[0]) + "\n";
    json_1 += "{\"i\": " + std::to_string(10000 + i) + "}\n";
    json_2 += (i == 1500   ? "{\"i\":" + std::to_string(11500) + "}\n"
               : i == 1501 ? "{\"i\":  " + std::to_string(11501) + "}\n"
                           : "{\"i\": " + std::to_string(10000 + i) + "}\n");
  }
  auto archive = [](const std::string& names) {
    std::string file;
    for (int i = 0; i < 40; ++i)
      file += tar_member("first" + std::to_string(i) + ".x", std::string(600, 'x'));
    for (std::size_t i = 0; i < names.size(); i += 3)
      file += tar_member(names.substr(i, 3), names.substr(i, 3));
    for (int i = 0; i < 20; ++i) file += tar_member("last" + std::to_string(i) + ".x", std::string(600, 'x'));
    return file + tar_end();
  };
  auto records = [](std::vector<std::string> middle) {
    std::vector<std::string> all(300, std::string(40, 'r'));
    all.insert(all.begin() + 220, middle.begin(), middle.end());
    return tfrecord_file(all);
  };
  for (const Change& change : std::vector<Change>{
           {"lines", lines_1, lines_2, [](const std::string& url) { return lines(url); }},
           {"jsonl", json_1, json_2, [](const std::string& url) { return jsonl(url); }},
           {"tar merged", archive("a.xb.y"), archive("a.xa.y"),
            [](const std::string& url) { return tar(url); }},
           {"tar split", archive("a.xa.y"), archive("a.xb.y"),
            [](const std::string& url) { return tar(url); }},
           {"tar renamed", archive("a.xb.y"), archive("a.xc.y"),
            [](const std::string& url) { return tar(url); }},
           {"tar ended", archive("a.xb.y").replace(40 * 1536 + 1024, 1024, std::string(1024, '\0')),
            archive("a.xb.y"), [](const std::string& url) { return tar(url); }},
           {"tfrecord", records({"short", "a longer one"}), records({"a longer one", "short"}),
            [](const std::string& url) { return tfrecord(url); }}}) {
    SCOPED_TRACE(change.name);
    ASSERT_EQ(change.first.size(), change.second.size());
    const std::string url = write("changed", change.first), fresh = write("fresh/changed", change.second);
    const std::uint64_t before = change.open(url)->size();
    write("changed", change.second);
    const SourcePtr source = change.open(url);
    ASSERT_EQ(source->size(), before) << "the index is that of the first version";
    std::vector<Record> right = read_all(*change.open(fresh));
    int wrong = 0;
    for (std::uint64_t i = 0; i < source->size(); ++i) {
      try {
        const Record record = source->read(i);
        EXPECT_TRUE(std::ranges::find(right, record) != right.end()) << "no record of the file: " << i;
      } catch (const DataError& error) {
        ++wrong;
        EXPECT_THAT(error.what(), HasSubstr(url));
      }
    }
    EXPECT_GE(wrong, 1);
    std::filesystem::remove_all(folder_.path() / "fresh");
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      std::filesystem::remove(entry.path());
  }
}

TEST_F(FormatsTest, NpyFilesOfEveryDtype_AreRead) {
  int dtypes = 0;
  for (DType dtype :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32,
        DType::kU64, DType::kF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    // NumPy's codes: the kind, and the size in bytes.
    const std::size_t size = size_of(dtype);
    const std::string text(name(dtype));
    const char kind = dtype == DType::kBool ? 'b' : text[0];
    const std::string code = std::string(1, size == 1 ? '|' : '<') + kind + std::to_string(size);
    SCOPED_TRACE(code);
    std::string bytes(3 * size, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(dtype == DType::kBool ? i % 2 : i);
    const SourcePtr source = npy({{"x", write("a.npy", npy_file(code, "(3,)", bytes))}});
    ASSERT_EQ(source->size(), 3u);
    const Field field = source->read(2).at("x");
    EXPECT_EQ(field.dtype, dtype);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()),
              bytes.substr(2 * size));
    ++dtypes;
  }
  EXPECT_EQ(dtypes, 14);
}

TEST_F(FormatsTest, MissingFiles_AreNamed) {
  const std::string gone = folder_.path() / "gone";
  for (const std::function<void()>& open : std::vector<std::function<void()>>{
           [&] { tokens_u16(gone); }, [&] { tokens_llm_c(gone); }, [&] { tokens_megatron(gone); },
           [&] {
             npy({{"x", gone}});
           },
           [&] { lines(gone); }, [&] { jsonl(gone); }, [&] { tfrecord(gone); }, [&] { mds(gone); },
           [&] { tar(gone); }})
    EXPECT_THAT(error_of<DataError>(open), HasSubstr("cannot open " + gone));
}

}  // namespace
}  // namespace lockstep::data
