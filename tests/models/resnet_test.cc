// SPDX-License-Identifier: Apache-2.0
// examples/train_resnet.cc, as a user runs it, in one process and in two: the losses of a training, and those
// on test pictures before and after it, are torch's (resnet/generate.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/testing/temporary_folder.h"
#include "tests/models/example_runs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ProcessResult;
using Arguments = std::vector<std::string>;

const std::string kFolder = LOCKSTEP_RESNET_DIR;

struct Printed {
  std::vector<double> losses;
  double test_loss = -1, accuracy = -1;
};

/// What process 0 prints.
Printed run(int processes, const Arguments& arguments) {
  Printed printed;
  std::istringstream lines(test::printed_by_example(LOCKSTEP_TRAIN_RESNET, processes, arguments));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("loss ")) printed.losses.push_back(std::stod(line.substr(5)));
    std::sscanf(line.c_str(), "test loss %lf, accuracy %lf", &printed.test_loss, &printed.accuracy);
  }
  return printed;
}

Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(TrainResnet, TrainsAsInTorch_AndWritesTheFolder) {
  std::ifstream in(kFolder + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  const std::vector<double> torchs = expected["losses"];
  EXPECT_LT(torchs.back(), 0.5 * torchs.front()) << "it does not learn";
  const Arguments same = {"--data", kFolder,   "--width",      "4",  "--blocks",
                          "1",      "--large", "--batch-size", "12", "--print-losses"};
  testing::TemporaryFolder folder;
  for (int processes : {1, 2}) {
    SCOPED_TRACE(processes);
    const std::string out = folder.path() / std::to_string(processes);
    const Printed trained = run(processes, same + Arguments{"--model", kFolder, "--out", out, "--epochs", "6",
                                                            "--weight-decay", "0.01"});
    ASSERT_EQ(trained.losses.size(), torchs.size());
    for (std::size_t i = 0; i < torchs.size(); ++i)
      EXPECT_NEAR(trained.losses[i], torchs[i], 1e-4) << "step " << i;
    EXPECT_NEAR(trained.test_loss, expected["after"][0], 2e-3);
    EXPECT_NEAR(trained.accuracy, expected["after"][1], 1e-3);
    const Printed again = run(1, same + Arguments{"--model", out, "--epochs", "0"});
    EXPECT_NEAR(again.test_loss, trained.test_loss, 1e-4);
  }
  const Printed before = run(2, same + Arguments{"--model", kFolder, "--epochs", "0"});
  EXPECT_NEAR(before.test_loss, expected["before"][0], 1e-5);
  EXPECT_NEAR(before.accuracy, expected["before"][1], 1e-3);
}

/// Of the digits, with small layers.
const Arguments kSmall = {"--width", "4", "--blocks", "1", "--batch-size", "64", "--print-losses"};

TEST(TrainResnet, OfTwoProcesses_HasTheLossesOfOne_AndGoesOnFromACheckpoint) {
  testing::TemporaryFolder folder;
  const fs::path saves = folder.path() / "run";
  const Arguments saved = {"--checkpoint-dir", saves.string(), "--checkpoint-every", "11", "--epochs", "1"};
  const Printed alone = run(1, kSmall + Arguments{"--epochs", "1"});
  const Printed together = run(2, kSmall + saved);
  ASSERT_EQ(alone.losses.size(), 22u);
  ASSERT_EQ(together.losses.size(), 22u);
  for (std::size_t i = 0; i < 22; ++i) EXPECT_NEAR(together.losses[i], alone.losses[i], 2e-3) << "step " << i;
  EXPECT_LT(alone.losses.back(), alone.losses.front() - 0.5) << "it does not learn";
  // From the middle on, now on one device.
  fs::remove_all(saves / "step-00000022");
  const Printed again = run(1, kSmall + saved);
  ASSERT_EQ(again.losses.size(), 11u);
  for (std::size_t i = 0; i < 11; ++i)
    EXPECT_NEAR(again.losses[i], together.losses[11 + i], 2e-3) << "step " << i;
  EXPECT_NEAR(again.test_loss, together.test_loss, 1e-2);
}

TEST(TrainResnet, OfWrongInput_SaysWhatIsWrong) {
  auto error = [](const Arguments& arguments) {
    const ProcessResult result = test::run_example(LOCKSTEP_TRAIN_RESNET, 1, arguments)[0];
    EXPECT_EQ(result.exit_code, 1);
    return result.log;
  };
  testing::TemporaryFolder folder;
  EXPECT_THAT(error({"--data", folder.path()}), HasSubstr("/train_images.npy"));
  EXPECT_THAT(error({"--out", folder.path()}), HasSubstr(folder.path().string() + " exists already"));
  for (const char* part : {"train", "test"}) {
    for (const char* what : {"images", "labels"})  // labels have no rows and columns
      fs::copy_file(kFolder + "/" + part + "_labels.npy",
                    folder.path() / (std::string(part) + "_" + what + ".npy"));
  }
  EXPECT_THAT(error({"--data", folder.path()}),
              HasSubstr("train_images.npy: expected [pictures,rows,columns,channels], got 1 dimensions"));
  EXPECT_THAT(error({"--data", kFolder, "--model", kFolder, "--width", "8", "--blocks", "1", "--large"}),
              HasSubstr("conv1.weight"));
}

}  // namespace
}  // namespace lockstep
