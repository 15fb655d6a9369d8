// SPDX-License-Identifier: Apache-2.0
#include "cli/base/output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/log_files.h"
#include "cli/base/words.h"
#include "lockstep/base/error.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::cli {
namespace {

class OutputTest : public ::testing::Test {
 protected:
  OutputTarget file(std::string& to) {
    return {.write = [&to](std::string_view text) { to += text; }};
  }
  OutputTarget terminal(std::string& to, bool color = false) {
    return {.write = [&to](std::string_view text) { to += text; },
            .terminal = true,
            .color = color,
            .columns = 20};
  }

  std::string out_, err_;
};

TEST_F(OutputTest, EachLine_IsWholeAndBeginsWithItsProcess) {
  Output output(12, {}, file(out_), file(err_));
  output.feed(0, Stream::kOut, "hel");
  output.feed(11, Stream::kOut, "one\ntwo\nthr");
  output.feed(0, Stream::kErr, "oops\n");
  output.feed(0, Stream::kOut, "lo\n");
  output.finish(11, Stream::kOut);
  output.say("done");
  EXPECT_EQ(out_, "[11] one\n[11] two\n[0] hello\n[11] thr\n");
  EXPECT_EQ(err_, "[0] oops\nlockstep: done\n");
}

TEST_F(OutputTest, ProgressInAFile_IsWrittenInItsLastStateOnly) {
  Output output(2, {}, file(out_), file(err_));
  output.feed(0, Stream::kOut, "\r10%\r20%");
  output.feed(0, Stream::kOut, "\r100%\n");
  EXPECT_EQ(out_, "[0] 100%\n");
}

TEST_F(OutputTest, OnATerminal_ProgressOfProcessZeroStaysBelowOtherLines) {
  Output output(2, {}, terminal(out_), terminal(out_));
  output.feed(0, Stream::kOut, "\r10%");
  EXPECT_EQ(out_, "[0] 10%");
  out_.clear();
  output.feed(0, Stream::kOut, "\r20%");
  EXPECT_EQ(out_, "\r\033[K[0] 20%");
  out_.clear();
  output.feed(1, Stream::kErr, "hello\n");
  EXPECT_EQ(out_, "\r\033[K[1] hello\n[0] 20%");
  out_.clear();
  output.feed(1, Stream::kOut, "\rmine\r");
  EXPECT_EQ(out_, "");
  output.feed(0, Stream::kOut, "\rdone\n");
  EXPECT_EQ(out_, "\r\033[K[0] done\n");
}

TEST_F(OutputTest, Progress_IsWrittenToATerminalOnly) {
  Output output(1, {}, file(out_), terminal(err_));
  output.feed(0, Stream::kOut, "\r10%\r20%");
  output.feed(0, Stream::kErr, "\r1/2\r2/2");
  output.feed(0, Stream::kOut, "\n");
  EXPECT_EQ(out_, "[0] 20%\n");
  EXPECT_EQ(err_, "[0] 2/2");
}

TEST_F(OutputTest, Progress_IsCutToTheTerminalsWidth) {
  Output output(1, {}, terminal(out_), terminal(out_));
  output.feed(0, Stream::kOut, "\r" + std::string(50, '#') + "\r" + std::string(50, '=') + "");
  EXPECT_EQ(out_, "[0] ===============");
}

TEST_F(OutputTest, ColorsTellProcessesApart) {
  Output output(2, {}, terminal(out_, true), terminal(out_, true));
  output.feed(0, Stream::kOut, "a\n");
  output.feed(1, Stream::kOut, "b\n");
  EXPECT_EQ(out_, "\033[36m[0]\033[0m a\n\033[33m[1]\033[0m b\n");
}

TEST_F(OutputTest, LinesOfSeveralHosts_NameTheirHost) {
  Output output(2, {"a", "b"}, file(out_), terminal(err_, true));
  output.feed(1, Stream::kOut, "out\n");
  output.feed(0, Stream::kErr, "err\n");
  EXPECT_EQ(out_, "[1@b] out\n");
  EXPECT_EQ(err_, "\033[36m[0@a]\033[0m err\n");
}

TEST_F(OutputTest, LogsOfARestart_HaveFilesOfTheirOwn) {
  testing::TemporaryFolder folder;
  for (int attempt : {0, 2}) {
    Output output(1, {}, file(out_), file(err_));
    output.keep_logs(folder.path(), attempt);
    output.feed(0, Stream::kOut, std::to_string(attempt));
  }
  EXPECT_EQ(testing::read_file(folder.path() / "process-0.log"), "0");
  EXPECT_EQ(testing::read_file(folder.path() / "process-0.attempt-2.log"), "2");
}

TEST_F(OutputTest, LogsOfAnEarlierRun_AreKeptUnderTheNextNumber) {
  testing::TemporaryFolder folder;
  auto run = [&](const std::string& text, int processes, int attempt = 0) {
    Output output(processes, {}, file(out_), file(err_));
    output.keep_logs(folder.path(), attempt);
    for (int i = 0; i < processes; ++i) output.feed(i, Stream::kOut, text);
  };
  auto log = [&](const std::string& name) { return testing::read_file(folder.path() / name); };
  run("first", 1);
  run("first again", 1, 1);
  run("second", 2);
  run("third", 2);
  EXPECT_EQ(log("process-0.log.1"), "first");
  EXPECT_EQ(log("process-0.attempt-1.log.1"), "first again");
  EXPECT_EQ(log("process-0.log.2"), "second");
  EXPECT_EQ(log("process-1.log.2"), "second");
  EXPECT_EQ(log("process-0.log"), "third");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "process-0.attempt-1.log"));
}

TEST(LogFiles, InASharedFolder_OnlyLogsOfTheOwnProcessesAreRenamed) {
  testing::TemporaryFolder folder;
  auto run = [&](const std::string& text, const std::vector<int>& processes, int attempt) {
    LogFiles logs(folder.path(), processes, attempt, LogFiles::Earlier::kOfTheseProcesses);
    for (const int i : processes) EXPECT_EQ(logs.write(i, text), std::nullopt);
  };
  auto log = [&](const std::string& name) { return testing::read_file(folder.path() / name); };
  run("first", {2, 3}, 0);
  run("first again", {2, 3}, 1);
  run("second", {2}, 0);
  EXPECT_EQ(log("process-2.log"), "second");
  EXPECT_EQ(log("process-2.log.1"), "first");
  EXPECT_EQ(log("process-2.attempt-1.log.1"), "first again");
  EXPECT_EQ(log("process-3.log"), "first");
  // A host that takes part from a restart on.
  run("second again", {3}, 1);
  EXPECT_EQ(log("process-3.attempt-1.log"), "second again");
  EXPECT_EQ(log("process-3.attempt-1.log.1"), "first again");
  EXPECT_EQ(log("process-3.log"), "first");
}

TEST_F(OutputTest, OutputThatIsNotShown_IsStillLogged) {
  testing::TemporaryFolder folder;
  Output output(2, {}, file(out_), file(err_));
  output.keep_logs(folder.path(), 0);
  output.show_only({1});
  for (const int process : {0, 1}) {
    output.feed(process, Stream::kOut, "line\npart");
    output.finish(process, Stream::kOut);
  }
  EXPECT_EQ(out_, "[1] line\n[1] part\n");
  EXPECT_EQ(testing::read_file(folder.path() / "process-0.log"), "line\npart");
}

TEST_F(OutputTest, NoSpaceForALog_IsReportedOnce_AndNothingElseIsLost) {
  testing::TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path() / "process-0.log");
  Output output(2, {}, file(out_), file(err_));
  output.keep_logs(folder.path(), 0);
  for (const char* text : {"one\n", "two\n"}) {
    for (const int process : {0, 1}) output.feed(process, Stream::kOut, text);
  }
  EXPECT_EQ(out_, "[0] one\n[1] one\n[0] two\n[1] two\n");
  EXPECT_EQ(testing::read_file(folder.path() / "process-1.log"), "one\ntwo\n");
  EXPECT_EQ(err_, "lockstep: cannot write " + (folder.path() / "process-0.log").string() +
                      ": No space left on device; from here on logs lack what could not be written\n");
}

TEST_F(OutputTest, LogsOfManyProcesses_HoldFewDescriptors) {
  testing::TemporaryFolder folder;
  Output output(300, {}, file(out_), file(err_));
  output.keep_logs(folder.path(), 0);
  for (const char* text : {"one\n", "two\n"}) {
    for (int i = 0; i < 300; ++i) output.feed(i, Stream::kOut, text);
  }
  for (const char* last : {"0", "150", "299"}) {
    EXPECT_EQ(testing::read_file(folder.path() / ("process-" + std::string(last) + ".log")), "one\ntwo\n");
  }
  const auto descriptors = std::filesystem::directory_iterator("/proc/self/fd");
  EXPECT_LT(std::distance(begin(descriptors), end(descriptors)), 200);
}

TEST_F(OutputTest, Logs_HoldTheBytesUnchanged) {
  testing::TemporaryFolder folder;
  Output output(2, {}, file(out_), file(err_));
  output.keep_logs(folder.path() / "new" / "logs", 0);
  output.feed(1, Stream::kOut, "\r10%\r20%\npart");
  output.feed(1, Stream::kErr, "oops\n");
  EXPECT_EQ(testing::read_file(folder.path() / "new" / "logs" / "process-1.log"), "\r10%\r20%\npartoops\n");
  EXPECT_EQ(testing::read_file(folder.path() / "new" / "logs" / "process-0.log"), "");
  EXPECT_THROW(output.keep_logs("/dev/null/logs", 0), Error);
}

TEST(Fit, CountsCharactersAndNotBytesOrEscapeSequences) {
  EXPECT_EQ(fit("abcdef", 3), "abc");
  EXPECT_EQ(fit("\033[36mab\033[0mcd", 3), "\033[36mab\033[0mc");
  EXPECT_EQ(fit("\u2588\u2588\u2588", 2), "\u2588\u2588");
  EXPECT_EQ(fit("ab", 5), "ab");
}

}  // namespace
}  // namespace lockstep::cli
