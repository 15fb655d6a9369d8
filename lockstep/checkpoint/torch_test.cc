// SPDX-License-Identifier: Apache-2.0
// Files of torch.save: testdata/model.pt, which testdata/make_torch.py wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/hf.h"
#include "lockstep/checkpoint/pickle.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

const std::string kModel = LOCKSTEP_CHECKPOINT_TESTDATA "/model.pt";

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

TEST(TorchFile, TensorsAndNumbers_AreReadByTheirKeys) {
  const Numbers numbers = restore_numbers(kModel);
  const auto floats = [&](const std::string& name) { return numbers.arrays.at(name).elements<float>(); };
  EXPECT_EQ(numbers.arrays.size(), 7u);
  EXPECT_EQ(numbers.arrays.at("state.embed.weight").shape, Shape({4, 3}));
  EXPECT_THAT(floats("state.embed.weight"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(floats("state.head.weight"), floats("state.embed.weight"));
  EXPECT_EQ(numbers.arrays.at("state.turned").shape, Shape({3, 4}));
  EXPECT_THAT(floats("state.turned"), ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
  EXPECT_THAT(floats("state.rows"), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_EQ(numbers.arrays.at("state.halves").dtype, DType::kBF16);
  EXPECT_THAT(numbers.arrays.at("state.count").elements<std::int64_t>(), ElementsAre(0));
  EXPECT_THAT(numbers.arrays.at("state.mask").elements<std::uint8_t>(), ElementsAre(0, 1));
  EXPECT_EQ(numbers.values, (Values{{"epoch", std::int64_t{3}},
                                    {"rate", 0.5},
                                    {"name", std::string("small")},
                                    {"history.0", std::int64_t{1}},
                                    {"history.1", std::int64_t{-70000}}}));
}

TEST(TorchFile, ItsTensors_AreRestoredByRules) {
  struct Model {
    Array embedding, halves;
  };
  const hf::Rules rules{{"embedding", "state.embed.weight", "v f -> f v"}, {"{}", "state.{}"}};
  const Model model = hf::restore(kModel, Model(), rules, {.partial = true});
  EXPECT_THAT(model.embedding.to_host<float>(), ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
  EXPECT_EQ(model.halves.dtype(), DType::kBF16);
}

TEST(TorchFile, AFolderWithAnIndex_IsRead) {
  TemporaryFolder folder;
  const auto part = folder.path() / "pytorch_model-00001-of-00001.bin";
  std::filesystem::copy(kModel, part);
  std::ofstream(folder.path() / "pytorch_model.bin.index.json")
      << R"({"weight_map": {"state.rows": "pytorch_model-00001-of-00001.bin",
                            "state.turned": "pytorch_model-00001-of-00001.bin"}})";
  EXPECT_EQ(restore_numbers(folder.path()).arrays.size(), 2u);
  std::filesystem::remove(folder.path() / "pytorch_model.bin.index.json");
  std::filesystem::rename(part, folder.path() / "pytorch_model.bin");
  EXPECT_EQ(restore_numbers(folder.path()).arrays.size(), 7u);
}

TEST(TorchFile, ObjectsOtherThanTensors_AreRefused) {
  const auto refusal = [](const std::string& pickle) {
    return error_of<CheckpointError>([&] {
      read_pickle(pickle, [](const std::string& what, bool is_foreign) {
        throw CheckpointError((is_foreign ? "foreign: " : "damaged: ") + what);
      });
    });
  };
  EXPECT_EQ(refusal("cos\nsystem\nX\x04\0\0\0true\x85R."), "foreign: it has a os.system");
  EXPECT_EQ(refusal("\x80\x04\x8c\x08"
                    "builtins\x8c\x04"
                    "eval\x93."),
            "foreign: it has a builtins.eval");
  EXPECT_EQ(refusal("ctorch\nFloatStorage\n)R."), "foreign: it calls torch.FloatStorage");
  EXPECT_EQ(refusal("i__main__\nA\n."), "foreign: its pickle has the opcode 0x69");
  EXPECT_EQ(refusal("]q"), "damaged: its pickle ends too early");
  EXPECT_EQ(refusal("(."), "damaged: its pickle does not end with one object");
  EXPECT_EQ(refusal("R."), "damaged: its pickle has too few objects");
  // A list of itself, and pairs of pairs of pairs of one each.
  EXPECT_EQ(refusal(std::string("]q\0h\0a.", 7)), "foreign: it is nested too deeply");
  std::string lists = "]";
  for (char i = 0; i < 60; ++i) lists += std::string("q") + i + "h" + i + "\x86";
  EXPECT_EQ(refusal(lists + "."), "foreign: it is nested too deeply");
}

TEST(TorchFile, ADamagedFile_IsRefused) {
  TemporaryFolder folder;
  const std::string path = folder.path() / "model.bin", whole = bytes_of_file(kModel);
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return error_of<CheckpointError>([&] { restore_numbers(path); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("it is not a zip file"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() / 2)), HasSubstr("it is not a zip file"));
  EXPECT_THAT(refusal("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 and more"), HasSubstr("of torch before 1.6"));
  std::string changed = whole;
  changed.replace(changed.find("FloatStorage"), 5, "Blood");
  EXPECT_THAT(refusal(changed),
              HasSubstr("it has a torch.BloodStorage, which is no part of a tensor, and "
                        "nothing of a file is executed; in torch, save model.state_dict()"));
  changed = whole;
  changed.replace(changed.find("K\x04K\x03\x86"), 2, "K\x05");  // the shape [5, 3] of 12 elements
  EXPECT_THAT(refusal(changed), HasSubstr("the tensor state.embed.weight does not fit its storage"));
  changed = whole;
  changed.replace(changed.find("little"), 6, "big!!!");
  EXPECT_THAT(refusal(changed), HasSubstr("was written on a big-endian machine"));
}

}  // namespace
}  // namespace lockstep::checkpoint
