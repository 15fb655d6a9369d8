// SPDX-License-Identifier: Apache-2.0
// The examples, as a user runs them: whole programs in several processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Processes;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::run_processes;

ProcessesOptions digits(int processes, int devices_each, std::vector<std::string> arguments) {
  return {.count = processes,
          .program = LOCKSTEP_EXAMPLES_DIR "/train_digits",
          .arguments = std::move(arguments),
          .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices_each)}},
          .coordinator = true,
          .deadline = std::chrono::seconds(120)};
}

/// The numbers in the lines "loss ...".
std::vector<double> losses_in(const std::string& log) {
  std::istringstream lines(log);
  std::vector<double> values;
  for (std::string line; std::getline(lines, line);) {
    double value;
    if (std::sscanf(line.c_str(), "loss %lf", &value) == 1) values.push_back(value);
  }
  return values;
}

/// The losses of the first 50 steps.
std::vector<double> losses(const std::string& optimizer, int processes, int devices_each) {
  auto results = run_processes(
      digits(processes, devices_each, {"--print-losses", "--epochs", "5", "--optimizer", optimizer}));
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0);
  std::vector<double> values = losses_in(results[0].log);
  if (values.size() > 50) values.resize(50);
  return values;
}

void expect_one_course(const std::string& optimizer, double tolerance) {
  const std::vector<double> alone = losses(optimizer, 1, 1);
  ASSERT_EQ(alone.size(), 50u);
  EXPECT_LT(alone.back(), 0.8 * alone.front()) << "it does not learn";
  for (auto [processes, devices] : {std::pair(2, 1), std::pair(4, 1), std::pair(1, 4), std::pair(2, 2)}) {
    const std::vector<double> together = losses(optimizer, processes, devices);
    ASSERT_EQ(together.size(), 50u);
    for (std::size_t i = 0; i < 50; ++i) {
      EXPECT_LE(std::abs(together[i] - alone[i]), tolerance * std::abs(alone[i]))
          << optimizer << ", " << processes << " processes of " << devices << " devices, step " << i;
    }
  }
}

TEST(TrainDigits, WithSgd_LossesOfSeveralDevices_EqualThoseOfOne) { expect_one_course("sgd", 1e-5); }
TEST(TrainDigits, WithAdam_LossesOfSeveralDevices_EqualThoseOfOne) { expect_one_course("adam", 1e-4); }

/// All end with status 1: each says `cause`, or that it ends because of one that did.
void expect_all_end(const std::vector<ProcessResult>& results, const ::testing::Matcher<std::string>& cause) {
  bool said = false;
  for (const ProcessResult& result : results) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, 1);
    said = said || ::testing::Matches(cause)(result.log);
    EXPECT_THAT(result.log, AnyOf(cause, HasSubstr("ended with an error: exit status 1")));
  }
  EXPECT_TRUE(said) << "nobody says the cause";
}

void expect_refusal(std::vector<std::string> arguments, const std::string& what) {
  expect_all_end(run_processes(digits(2, 1, std::move(arguments))),
                 AllOf(HasSubstr("train_digits: "), HasSubstr(what)));
}

TEST(TrainDigits, WithoutItsData_IsAnErrorThatNamesTheFile) {
  expect_refusal({"--data", "/nowhere/digits.csv.gz"}, "/nowhere/digits.csv.gz");
}

TEST(TrainDigits, WithDamagedData_IsAnErrorThatNamesTheFile) {
  std::ifstream whole(LOCKSTEP_DATA_DIR "/digits.csv.gz", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  ASSERT_GT(bytes.size(), 2000u);
  const std::string path = ::testing::TempDir() + "/damaged_digits_" + std::to_string(getpid()) + ".csv.gz";
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  expect_refusal({"--data", path}, path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x5a);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  expect_refusal({"--data", path}, path);
  std::remove(path.c_str());
}

TEST(TrainDigits, WithABatchThatTheDevicesDoNotDivide_IsAnErrorThatSaysSo) {
  expect_all_end(run_processes(digits(2, 2, {"--batch-size", "126"})),
                 AllOf(HasSubstr("train_digits: "), HasSubstr("dimension 0"),
                       HasSubstr("'data' of 4 devices"), HasSubstr("remainder 2"), HasSubstr("124 and 128")));
}

/// A batch that the processes themselves do not divide.
TEST(TrainDigits, WithABatchThatTheProcessesDoNotDivide_IsAnErrorThatSaysSo) {
  expect_all_end(run_processes(digits(2, 1, {"--batch-size", "127", "--epochs", "1"})),
                 AllOf(HasSubstr("train_digits: "), HasSubstr("127")));
}

/// The time from the kill until all others have ended, printed; generous for a busy machine.
void expect_end_soon_after(const std::vector<ProcessResult>& results, int killed) {
  std::chrono::milliseconds last{0};
  for (int i = 0; i < static_cast<int>(results.size()); ++i) {
    if (i == killed) continue;
    EXPECT_FALSE(results[i].timed_out) << i;
    EXPECT_NE(results[i].exit_code, 0) << i;
    EXPECT_THAT(results[i].log, HasSubstr("process " + std::to_string(killed))) << i;
    last = std::max(last, results[i].ended_after - results[killed].ended_after);
  }
  std::printf("the others ended %d ms after the kill\n", static_cast<int>(last.count()));
  EXPECT_LT(last, testing::kAtOnce);
}

TEST(TrainDigits, KilledProcessInTraining_IsNamedByTheOthers_WhichEndSoon) {
  Processes processes(digits(4, 1, {"--print-losses", "--epochs", "100000"}));
  processes.wait_for_line(0, "loss ");
  processes.kill(2, SIGKILL);
  expect_end_soon_after(processes.wait(), 2);
}

/// The losses of a small transformer's first 8 steps.
std::vector<double> transformer_losses(int processes, int devices_each, std::vector<std::string> arguments) {
  for (const char* argument : {"--print-losses", "--steps", "8", "--layers", "1", "--width", "32",
                               "--context", "32", "--batch-size", "8", "--sample", "20"})
    arguments.push_back(argument);
  auto results = run_processes({.count = processes,
                                .program = LOCKSTEP_EXAMPLES_DIR "/train_transformer",
                                .arguments = std::move(arguments),
                                .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices_each)}},
                                .coordinator = true,
                                .deadline = std::chrono::seconds(120)});
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(results[0].log, AllOf(HasSubstr("\nheld-out loss "), HasSubstr("\nLOCKSTEP, n.")));
  return losses_in(results[0].log);
}

TEST(TrainTransformer, LossesOfSeveralDevices_EqualThoseOfOne) {
  const std::vector<double> alone = transformer_losses(1, 1, {});
  ASSERT_EQ(alone.size(), 8u);
  EXPECT_LT(alone.back(), alone.front() - 0.3) << "it does not learn";
  auto expect_alone = [&](const std::vector<double>& found, const char* how) {
    ASSERT_EQ(found.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(found[i], alone[i], 1e-4) << how << ", step " << i;
  };
  expect_alone(transformer_losses(2, 1, {}), "2 processes");
  expect_alone(transformer_losses(2, 1, {"--tensor", "2"}), "2 processes that share each layer");
  expect_alone(transformer_losses(2, 2, {"--tensor", "2", "--accumulate", "2", "--remat"}),
               "2 processes of 2 devices, in parts");
}

TEST(TrainTransformer, WithoutItsText_IsAnErrorThatNamesTheFile) {
  for (const ProcessResult& result : run_processes({.count = 1,
                                     .program = LOCKSTEP_EXAMPLES_DIR "/train_transformer",
                                     .arguments = {"--data", "/nowhere/text.gz"},
                                     .coordinator = true,
                                     .deadline = std::chrono::seconds(60)})) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.log, HasSubstr("train_transformer: [read_text] cannot open /nowhere/text.gz: "));
  }
}

ProcessResult under_launcher(const std::vector<std::string>& arguments) {
  return run_processes(
             {.program = LOCKSTEP_TOOL, .arguments = arguments, .deadline = std::chrono::seconds(60)})
      .front();
}

TEST(Launcher, KilledProcessInTraining_EndsTheJobAndNamesIt) {
  Processes launcher({.program = LOCKSTEP_TOOL,
                      .arguments = {"run", "-n", "4", "--", "/bin/sh", "-c",
                                    "echo pid-$LOCKSTEP_PROCESS_ID=$$.; exec " LOCKSTEP_EXAMPLES_DIR
                                    "/train_digits --print-losses --epochs 100000"},
                      .deadline = std::chrono::seconds(60)});
  launcher.wait_for_line(0, "loss ");
  launcher.wait_for_line(0, "pid-2=");
  const std::string log = launcher.log(0);
  const pid_t victim = std::stoi(log.substr(log.find("pid-2=") + 6));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  ProcessResult result = launcher.wait(0);
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  std::printf("the job ended %d ms after the kill\n", static_cast<int>(took.count()));
  EXPECT_LT(took, testing::kAtOnce);
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("process 2"));
}

TEST(HelloDevices, PrintsTheOutputThatItsCommentShows) {
  ProcessResult result = under_launcher(
      {"run", "-n", "2", "--devices-per-process", "2", "--", LOCKSTEP_EXAMPLES_DIR "/hello_devices"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("[0] process 0 of 2 on "));
  EXPECT_THAT(result.log, HasSubstr(": local devices CpuDevice(id=0) CpuDevice(id=1); 4 devices in all"));
  EXPECT_THAT(result.log, HasSubstr("[1] process 1 of 2 on "));
  EXPECT_THAT(result.log, HasSubstr(": local devices CpuDevice(id=2) CpuDevice(id=3); 4 devices in all"));
}

TEST(Psum, PrintsTheOutputThatItsCommentShows) {
  ProcessResult result =
      under_launcher({"run", "-n", "2", "--devices-per-process", "2", "--", LOCKSTEP_EXAMPLES_DIR "/psum"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("[0] process 0: psum gives 4 4\n"));
  EXPECT_THAT(result.log, HasSubstr("[1] process 1: psum gives 4 4\n"));
}

/// Each of the guide's programs checks its own results and throws where they are wrong.
class GuideExamples : public ::testing::TestWithParam<const char*> {};

TEST_P(GuideExamples, RunWithOneOrSeveralProcessesAndDevices) {
  for (auto [processes, devices] : {std::pair(1, 1), std::pair(1, 2), std::pair(2, 1), std::pair(2, 2),
                                    std::pair(4, 1), std::pair(4, 2)}) {
    auto results = run_processes({.count = processes,
                                  .program = std::string(LOCKSTEP_EXAMPLES_DIR "/") + GetParam(),
                                  .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices)}},
                                  .coordinator = true,
                                  .deadline = std::chrono::seconds(120)});
    for (const ProcessResult& result : results) {
      EXPECT_EQ(result.exit_code, 0) << processes << " processes of " << devices
                                     << " devices: " << result.log;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Guides, GuideExamples,
                         ::testing::Values("n_devices_in_mesh", "process_spanning_arrays", "data_loading",
                                           "distributed_data_loader", "pod_shardings", "tensor_parallel_mlp"),
                         [](const auto& info) { return info.param; });

/// The mean lengths in the lines "iteration N: mean episode X steps".
std::vector<double> episode_lengths(int processes) {
  const auto results = run_processes({.count = processes,
                                      .program = LOCKSTEP_EXAMPLES_DIR "/ppo_cartpole",
                                      .coordinator = true,
                                      .deadline = std::chrono::seconds(120)});
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(results[0].log, HasSubstr("\nlearned"));
  std::istringstream lines(results[0].log);
  std::vector<double> values;
  for (std::string line; std::getline(lines, line);) {
    double value;
    if (std::sscanf(line.c_str(), "iteration %*d: mean episode %lf", &value) == 1) values.push_back(value);
  }
  return values;
}

TEST(PpoCartpole, Learns_AndBeginsTheSameInOneAndTwoProcesses) {
  const std::vector<double> alone = episode_lengths(1), two = episode_lengths(2);
  ASSERT_EQ(alone.size(), 6u);
  ASSERT_EQ(two.size(), 6u);
  EXPECT_NEAR(two[0], alone[0], 2);  // later, rounding has changed some of the actions
}

/// What the server prints in as many processes, for the input that a shell's command writes.
std::string answers(int processes, const std::string& input, const std::string& options = "") {
  const std::string command = "(" + input + ") | " LOCKSTEP_TOOL " run -n " + std::to_string(processes) +
                              " " + options + " -- " LOCKSTEP_EXAMPLES_DIR "/inference_server";
  const ProcessResult result = run_processes(
      {.program = "/bin/sh", .arguments = {"-c", command}, .deadline = std::chrono::seconds(60)})[0];
  EXPECT_EQ(result.exit_code, 0);
  return result.log;
}

TEST(InferenceServer, AnswersTheLinesOfItsInputInOrder_FromAnyNumberOfProcesses) {
  for (int processes : {1, 2, 4}) {
    EXPECT_THAT(answers(processes, "printf '1 2 3 4\\n0 0 0 1\\n5 6\\n'"),
                HasSubstr("[0] ready: the answers of all devices equal those of one\n"
                          "[0] 0.087 -1.208\n[0] 0.001 -0.866\n[0] error: expected 4 numbers\n"));
  }
  EXPECT_THAT(answers(2, "for i in $(seq 20); do echo $i 0 0 1; done"),
              AllOf(HasSubstr("[0] -0.174 -0.740\n[0] -0.195 -0.609\n"),
                    HasSubstr("[0] 0.198 0.210\n[0] 0.202 0.221\n")))
      << "more than a batch";
}

TEST(InferenceServer, WithoutRequestsForLongerThanTheStallTimeout_ReportsNothingAndGoesOn) {
  const std::string log =
      answers(2, "echo 1 2 3 4; sleep 4; echo 0 0 0 1", "--stall-warning 0.5 --stall-timeout 2");
  EXPECT_THAT(log, HasSubstr("[0] 0.087 -1.208\n[0] 0.001 -0.866\n"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("waiting for")));
}

}  // namespace
}  // namespace lockstep
