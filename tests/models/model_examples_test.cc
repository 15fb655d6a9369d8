// SPDX-License-Identifier: Apache-2.0
// The examples that are whole models, as a user runs them, in one process and in four: their losses, and what
// the diffusion model draws, are those that JAX and optax give (programs.py, which has the same models).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::run_processes;
using testing::TemporaryFolder;
using Arguments = std::vector<std::string>;

std::vector<double> expected(const std::string& name) {
  std::ifstream in(LOCKSTEP_PROGRAMS_FILE);
  return nlohmann::json::parse(in)[name];
}

std::vector<ProcessResult> run(const std::string& program, int processes, const Arguments& arguments) {
  return run_processes({.count = processes,
                        .program = std::string(LOCKSTEP_EXAMPLES_DIR "/") + program,
                        .arguments = arguments,
                        .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "1"}},
                        .coordinator = true,
                        .deadline = std::chrono::seconds(120)});
}

/// The output of process 0; the losses, on lines "loss ...", are JAX's.
std::string expect_jaxs_losses(const std::string& program, int processes, Arguments arguments) {
  SCOPED_TRACE(program + " in " + std::to_string(processes) + " processes");
  arguments.push_back("--print-losses");
  const std::vector<ProcessResult> results = run(program, processes, arguments);
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
  std::vector<double> found;
  std::istringstream lines(results[0].log);
  for (std::string line; std::getline(lines, line);) {
    double value;
    if (std::sscanf(line.c_str(), "loss %lf", &value) == 1) found.push_back(value);
  }
  const std::vector<double> jaxs = expected(program);
  EXPECT_EQ(found.size(), jaxs.size());
  for (std::size_t i = 0; i < std::min(found.size(), jaxs.size()); ++i)
    EXPECT_NEAR(found[i], jaxs[i], 2e-5) << "step " << i;
  EXPECT_LT(jaxs.back(), jaxs.front()) << "it does not learn";
  return results[0].log;
}

TEST(TrainVit, TrainsAsInJax) {
  for (int processes : {1, 4}) {
    const std::string log = expect_jaxs_losses(
        "train_vit", processes,
        {"--width", "16", "--heads", "2", "--layers", "2", "--epochs", "1", "--batch-size", "128"});
    EXPECT_THAT(log, HasSubstr("\ntest accuracy 0."));
  }
}

TEST(TrainGpt, ByFsdpAndTensor_TrainsAsInJax_AndRestoresACheckpoint) {
  const Arguments size = {"--width",      "32", "--heads", "4",  "--layers", "2", "--context", "16",
                          "--batch-size", "8",  "--steps", "12", "--sample", "20"};
  TemporaryFolder folder;
  Arguments shared = size;
  for (const std::string& each : {std::string("--tensor"), std::string("2"), std::string("--checkpoint-dir"),
                                  (folder.path() / "run").string()})
    shared.push_back(each);
  const std::string alone = expect_jaxs_losses("train_gpt", 1, size);
  const std::string together = expect_jaxs_losses("train_gpt", 4, shared);

  // All steps are done: the model of the checkpoint, now on one device, writes the same.
  shared[shared.size() - 3] = "1";
  const std::vector<ProcessResult> again = run("train_gpt", 1, shared);
  auto end = [](const std::string& log) {
    return log.substr(std::min(log.size(), log.find("held-out loss")));
  };
  EXPECT_THAT(end(together), HasSubstr("\nLOCKSTEP, n."));
  EXPECT_EQ(again[0].exit_code, 0);
  EXPECT_EQ(end(again[0].log), end(together));
  EXPECT_EQ(end(alone), end(together));
}

/// The lines of the losses, of 8 devices in `processes` processes, of which `on_host` are on one host: hosts
/// are emulated by their names.
std::string reproducible_losses(int processes, int on_host, const std::filesystem::path& cache) {
  Arguments arguments = {
      "--uts",
      "--",
      "bash",
      "-c",
      "hostname host$((LOCKSTEP_PROCESS_ID / " + std::to_string(on_host) + ")) && exec \"$0\" \"$@\"",
      LOCKSTEP_EXAMPLES_DIR "/train_gpt"};
  for (const char* each : {"--width", "32", "--heads", "4", "--layers", "2", "--context", "16",
                           "--batch-size", "8", "--steps", "5", "--sample", "0", "--print-losses"})
    arguments.push_back(each);
  std::string program = "/usr/bin/unshare";
  if (on_host >= processes) {
    program = arguments[5];
    arguments.erase(arguments.begin(), arguments.begin() + 6);
  }
  const std::vector<ProcessResult> results =
      run_processes({.count = processes,
                     .program = program,
                     .arguments = arguments,
                     .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(8 / processes)},
                             {"LOCKSTEP_REPRODUCIBLE_SUMS", "1"},
                             {"LOCKSTEP_COMPILATION_CACHE_DIR", cache.string()}},
                     .coordinator = true,
                     .deadline = std::chrono::seconds(240)});
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
  std::string losses;
  std::istringstream lines(results[0].log);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("loss ")) losses += line + "\n";
  return losses;
}

TEST(TrainGpt, WithReproducibleSums_HasTheSameLossesHoweverItsDevicesAreDistributed) {
  TemporaryFolder folder;
  const std::filesystem::path cache = folder.path() / "cache";
  const std::string alone = reproducible_losses(1, 1, cache);
  EXPECT_EQ(std::ranges::count(alone, '\n'), 5) << alone;
  EXPECT_EQ(reproducible_losses(2, 2, cache), alone) << "2 processes of 4 devices";
  EXPECT_EQ(reproducible_losses(8, 8, cache), alone) << "8 processes";
  // Names of hosts are the superuser's.
  if (std::system("unshare --uts true 2>/dev/null") != 0) return;
  EXPECT_EQ(reproducible_losses(2, 1, cache), alone) << "2 processes of 4 devices on 2 hosts";
  EXPECT_EQ(reproducible_losses(8, 3, cache), alone) << "8 processes on hosts of 3, 3 and 2";
}

TEST(TrainGpt, WithoutItsText_IsAnErrorThatNamesTheFile) {
  const std::vector<ProcessResult> results = run("train_gpt", 1, {"--data", "/nowhere/text.gz"});
  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_THAT(results[0].log, HasSubstr("train_gpt: [read_text] cannot open /nowhere/text.gz: "));
}

struct Picture {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

Picture read_png(const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0) << path << ": " << image.message;
  image.format = PNG_FORMAT_GRAY;
  Picture picture{image.width, image.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  EXPECT_NE(png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr), 0) << image.message;
  return picture;
}

TEST(TrainDiffusion, TrainsAndDrawsAsInJax) {
  TemporaryFolder folder;
  const std::string path = (folder.path() / "digits.png").string();
  const std::vector<double> jaxs = expected("picture");
  for (int processes : {1, 4}) {
    SCOPED_TRACE(processes);
    const std::string log = expect_jaxs_losses("train_diffusion", processes,
                                               {"--width", "8", "--batch-size", "32", "--steps", "20",
                                                "--rows", "1", "--denoising-steps", "4", "--picture", path});
    EXPECT_THAT(log, HasSubstr(path + " has 1 rows of the digits from 0 to 9"));
    const Picture picture = read_png(path);
    std::filesystem::remove(path);
    ASSERT_EQ(picture.width, 400);
    ASSERT_EQ(picture.height, 40);
    ASSERT_EQ(jaxs.size(), std::size_t{1000});
    for (std::size_t row = 0; row < 40; ++row) {
      for (std::size_t column = 0; column < 400; ++column)  // each pixel of JAX's is 4 x 4 here
        ASSERT_NEAR(picture.pixels[400 * row + column], jaxs[100 * (row / 4) + column / 4], 1)
            << row << ", " << column;
    }
  }
}

TEST(TrainDiffusion, WithAPictureThatCannotBeWritten_IsAnErrorThatNamesIt) {
  const std::vector<ProcessResult> results =
      run("train_diffusion", 1,
          {"--width", "4", "--batch-size", "8", "--steps", "2", "--rows", "1", "--denoising-steps", "1",
           "--picture", "/nowhere/digits.png"});
  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_THAT(results[0].log, HasSubstr("train_diffusion: [write_png] cannot write /nowhere/digits.png: "));
}

}  // namespace
}  // namespace lockstep
