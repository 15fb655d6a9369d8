// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/base/job_socket.h"
#include "cli/status/job_server.h"
#include "cli/status/status_json.h"
#include "cli/testing/reports.h"
#include "cli/testing/tool.h"
#include "lockstep/base/error.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/watch/recorder.h"

// A job's socket, and `lockstep status`, which asks on it.

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// Sockets of this test's jobs are in a folder of its own.
class Status : public ::testing::Test {
 protected:
  Status() { setenv("LOCKSTEP_SOCKET_DIR", folder().c_str(), 1); }
  ~Status() override { unsetenv("LOCKSTEP_SOCKET_DIR"); }

  fs::path folder() const { return runtime_.path() / "lockstep"; }
  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const RunningJob& job : running_jobs()) all.push_back(job.id);
    return all;
  }
  testing::Variables env() const { return {{"LOCKSTEP_SOCKET_DIR", folder()}}; }

  testing::TemporaryFolder runtime_;
};

int mode_of(const fs::path& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? static_cast<int>(found.st_mode & 07777) : -1;
}

std::unique_ptr<JobServer> serve(const StatusBoard& board, const std::string& job_id) {
  auto server = std::make_unique<JobServer>(JobServerOptions{.job_id = job_id});
  EXPECT_EQ(server->trouble(), "");
  server->publish(board.view());
  return server;
}

nlohmann::json ask(const std::string& job_id, const std::string& line) {
  JobConnection connection(find_job(job_id));
  connection.send(line + "\n");
  const auto answer = connection.line(seconds(20));
  EXPECT_TRUE(answer);
  return nlohmann::json::parse(answer.value_or("null"));
}

TEST_F(Status, TheSocket_IsForThisUserOnly_AndRemovedWithTheServer) {
  auto server = serve(made_up_board(2), "aaaa1111");
  EXPECT_EQ(mode_of(folder()), 0700);
  EXPECT_EQ(mode_of(folder() / "aaaa1111.sock"), 0600);
  EXPECT_THAT(ids(), ElementsAre("aaaa1111"));
  server.reset();
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(Status, WithoutAChosenFolder_TheSocketIsInTheSessionsFolder) {
  unsetenv("LOCKSTEP_SOCKET_DIR");
  const char* const before = std::getenv("XDG_RUNTIME_DIR");
  const std::string session = before == nullptr ? "" : before;
  const std::string otherwise = "/tmp/lockstep-" + std::to_string(geteuid());
  setenv("XDG_RUNTIME_DIR", runtime_.path().c_str(), 1);
  EXPECT_THAT(socket_folders(), ElementsAre(runtime_.path() / "lockstep", otherwise));
  setenv("XDG_RUNTIME_DIR", (runtime_.path() / "none").c_str(), 1);
  EXPECT_THAT(socket_folders(), ElementsAre(otherwise));
  if (session.empty())
    unsetenv("XDG_RUNTIME_DIR");
  else
    setenv("XDG_RUNTIME_DIR", session.c_str(), 1);
}

TEST_F(Status, AFolderThatOthersMayEnter_OrALink_IsRefused) {
  fs::create_directory(folder());
  chmod(folder().c_str(), 0755);
  EXPECT_THAT([&] { make_socket_folder(folder()); }, ThrowsMessage<Error>(HasSubstr("open to others")));
  EXPECT_THAT(JobServer({.job_id = "aaaa"}).trouble(), HasSubstr("open to others"));
  fs::remove(folder());
  const fs::path elsewhere = runtime_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  chmod(elsewhere.c_str(), 0700);
  fs::create_directory_symlink(elsewhere, folder());
  EXPECT_THAT([&] { make_socket_folder(folder()); }, ThrowsMessage<Error>(HasSubstr("symbolic link")));
  fs::remove(folder());
  std::ofstream(folder()) << "x";
  EXPECT_THAT([&] { make_socket_folder(folder()); }, ThrowsMessage<Error>(HasSubstr("not a folder")));
  if (geteuid() != 0) return;
  fs::remove(folder());
  fs::create_directory(folder());
  chmod(folder().c_str(), 0700);
  ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
  EXPECT_THAT([&] { make_socket_folder(folder()); },
              ThrowsMessage<Error>(HasSubstr("belongs to user 12345")));
}

TEST_F(Status, WhereAnotherUserHasTakenTheFolder_AnotherOneIsUsedAndFound) {
  if (!testing::can_be_other_users()) return;
  const std::string taken = "/tmp/lockstep-" + std::to_string(testing::kOwnUser);
  const auto tidy = [&] {
    for (const auto& entry : fs::directory_iterator("/tmp"))
      if (entry.path().native().starts_with(taken)) fs::remove_all(entry.path());
  };
  tidy();
  unsetenv("LOCKSTEP_SOCKET_DIR");
  const char* const before = std::getenv("XDG_RUNTIME_DIR");
  const std::string session = before == nullptr ? "" : before;
  unsetenv("XDG_RUNTIME_DIR");
  for (const testing::PlantedFile& planted : testing::planted_files()) {
    SCOPED_TRACE(planted.name);
    const bool is_free = planted.words.empty();
    {
      const testing::AsUser other(testing::kOtherUser);
      planted.make(taken, "/tmp/nowhere/own");
    }
    {
      const testing::AsUser own(testing::kOwnUser);
      const StatusBoard board = made_up_board(2);
      auto one = serve(board, "aaaa1111"), two = serve(board, "bbbb2222");
      EXPECT_THAT(ids(), ElementsAre("aaaa1111", "bbbb2222"));
      const fs::path used = find_job("aaaa").socket.parent_path();
      EXPECT_EQ(used == taken, is_free);
      EXPECT_EQ(find_job("bbbb").socket.parent_path(), used);
      EXPECT_EQ(mode_of(used), 0700);
      one.reset();
      two.reset();
      EXPECT_THAT(
          [] { find_job(""); },
          ThrowsMessage<Error>(HasSubstr(taken + (is_free ? ")" : ", which is not used because it "))));
    }
    tidy();
  }
  if (!session.empty()) setenv("XDG_RUNTIME_DIR", session.c_str(), 1);
}

TEST_F(Status, ASocketOfAKilledLauncher_IsRemoved) {
  make_socket_folder(folder());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string path = folder() / "dead.sock";
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(descriptor);
  ASSERT_TRUE(fs::exists(path));
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Status, AJob_IsFoundByTheBeginningOfItsId) {
  const StatusBoard board = made_up_board(2);
  auto one = serve(board, "aaaa1111"), other = serve(board, "aaab2222");
  EXPECT_EQ(find_job("aaab").id, "aaab2222");
  EXPECT_THAT([] { find_job("aaa"); },
              ThrowsMessage<Error>(HasSubstr("several jobs have ids that begin with 'aaa'")));
  EXPECT_THAT([] { find_job("zz"); }, ThrowsMessage<Error>(HasSubstr("those that run: aaaa1111, aaab2222")));
}

TEST_F(Status, InvalidRequests_GetAnError) {
  auto server = serve(made_up_board(2), "cafe");
  EXPECT_EQ(ask("cafe", R"({"request": "job"})")["job"]["processes"], 2);
  for (const char* line : {"", "no JSON", "[]", "{}", R"({"request": 1})", R"({"request": "dance"})"})
    EXPECT_THAT(ask("cafe", line)["error"].get<std::string>(), HasSubstr("only job, status")) << line;
}

TEST_F(Status, ARequestToTheLaunchersLoop_MayBeAnsweredLateAndInManyLines) {
  auto server = serve(made_up_board(2), "cafe");
  std::shared_ptr<JobAnswer> kept;
  server->answer(
      "stream", [&](const nlohmann::json&, const std::shared_ptr<JobAnswer>& answer) { kept = answer; },
      true);
  JobConnection connection(find_job("cafe"));
  connection.send("{\"request\": \"stream\"}\n");
  pollfd polled{server->descriptor(), POLLIN, 0};
  ASSERT_EQ(poll(&polled, 1, 20000), 1);
  server->work();
  ASSERT_NE(kept, nullptr);
  for (int i = 0; i < 3; ++i) {
    kept->line({{"number", i}, {"text", std::string(1 << 20, 'x')}});
    EXPECT_EQ(nlohmann::json::parse(connection.line(seconds(20)).value_or("{}"))["number"], i);
  }
  // Answers may outlive the server.
  server.reset();
  EXPECT_TRUE(kept->gone());
  kept->line({{"late", true}});
  kept.reset();
  EXPECT_EQ(connection.line(seconds(20)), std::nullopt);
}

TEST_F(Status, AClientThatHasGone_IsKnownToTheHandler) {
  auto server = serve(made_up_board(2), "cafe");
  std::shared_ptr<JobAnswer> kept;
  server->answer(
      "stream", [&](const nlohmann::json&, const std::shared_ptr<JobAnswer>& answer) { kept = answer; },
      true);
  {
    JobConnection connection(find_job("cafe"));
    connection.send("{\"request\": \"stream\"}\n");
    pollfd polled{server->descriptor(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 20000), 1);
    server->work();
  }
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (!kept->gone() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(kept->gone());
}

// As many as may ask hang, and more: the next one is answered nevertheless.
TEST_F(Status, ClientsThatSendOrReadNothing_DoNotHinderOthers) {
  StatusBoard board = made_up_board(3000);
  auto server = serve(board, "cafe");
  std::vector<std::unique_ptr<JobConnection>> stuck;
  for (int i = 0; i < 20; ++i) {
    stuck.push_back(std::make_unique<JobConnection>(find_job("cafe")));
    if (i % 2 == 0) stuck.back()->send("{\"request\": \"status\"}\n");  // and reads nothing
  }
  EXPECT_EQ(ask("cafe", R"({"request": "status"})")["processes"].size(), 3000u);
  server->publish(board.view());
  EXPECT_EQ(ask("cafe", R"({"request": "job"})")["job"]["processes"], 3000);
  // The longest to wait had to make way.
  EXPECT_EQ(stuck.front()->line(seconds(20)).value_or("").size() > 100, false);
}

TEST_F(Status, TenThousandProcesses_AreShownWithinSeconds) {
  auto server = serve(made_up_board(10000, 100), "cafe");
  const auto began = std::chrono::steady_clock::now();
  const ProcessResult result = lockstep({"status"}, env());
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("9,999 of them"), HasSubstr("own code since step")));
  std::printf("status of 10,000 processes: %.0f ms\n", took * 1e3);
  RecordProperty("milliseconds", static_cast<int>(took * 1e3));
  // The figure is for an idle machine; this is for one under a load of tests.
  EXPECT_LT(took, 10);
}

// A process as a recorder shows it: process 1 is in its own code, the others wait for it until the file is
// there.
LOCKSTEP_CHILD(shows_a_wait) {
  const int process = std::atoi(std::getenv("LOCKSTEP_PROCESS_ID"));
  watch::set_process(process, std::atoi(std::getenv("LOCKSTEP_NUM_PROCESSES")));
  const std::filesystem::path go_on = testing::child_arguments().at(0);
  const auto wait = [&] {
    while (!std::filesystem::exists(go_on)) std::this_thread::sleep_for(milliseconds(5));
  };
  { const watch::Doing launch(watch::Kind::kLaunch, "step", {}); }
  watch::set_metrics(42, R"({"loss": 0.5})");
  watch::set_device_memory(0, std::uint64_t{3} << 30, std::uint64_t{4} << 30);
  if (process == 1) return wait();
  const watch::Doing launch(watch::Kind::kLaunch, "step", {});
  const watch::Doing collective(watch::Kind::kCollective, "psum f32[4] over i", {});
  watch::waits_for(std::array{1}, 7);
  wait();
}

TEST_F(Status, ARunningJob_ShowsWhichProcessWaitsForWhich) {
  const fs::path go_on = runtime_.path() / "go_on";
  Processes job(tool(Words{"run", "-n", "3", "--max-restarts", "1", "--"} +
                         testing::command_of_child("shows_a_wait", {go_on.native()}),
                     env()));
  const auto deadline = std::chrono::steady_clock::now() + seconds(50);
  ProcessResult result;
  while (std::chrono::steady_clock::now() < deadline) {
    result = lockstep({"status"}, env());
    if (result.log.find("stalled for") != std::string::npos) break;
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("waits in psum f32[4] over i for process 1"), HasSubstr("own code since step"),
                    HasSubstr("loss 0.5"), HasSubstr("42"), HasSubstr("3.0 GiB of 4.0 GiB"),
                    HasSubstr("processes 0, 2 of 3 wait in psum")));
  const ProcessResult json = lockstep({"status", "--json"}, env());
  const auto status = nlohmann::json::parse(json.log, nullptr, false);
  ASSERT_TRUE(status.is_object()) << json.log;
  EXPECT_EQ(status["format"], 1);
  EXPECT_EQ(status["processes"].size(), 3u);
  EXPECT_EQ(status["processes"][0]["state"], "waits");
  EXPECT_EQ(status["processes"][1]["step"], 42);
  EXPECT_EQ(status["processes"][1]["metrics"]["loss"], 0.5);
  EXPECT_EQ(status["stalls"][0]["culprits"][0]["process"], 1);
  EXPECT_GT(status["processes"][0]["memory"].get<double>(), 1e5);
  EXPECT_EQ(status["processes"][2]["device_memory"],
            nlohmann::json::parse(R"([{"in_use": 3221225472, "limit": 4294967296}])"));
  EXPECT_GT(status["processes"][0]["recent"]["wait"].get<double>(), 0.3);

  // --watch goes on until the job has ended; the job ends though somebody holds a connection.
  Processes watching(tool({"status", "--watch"}, env()));
  watching.wait_for_line(0, "psum");
  JobConnection stuck(find_job(ids().at(0)));
  stuck.send("{\"request\": \"status\"}\n");
  std::ofstream(go_on) << "x";
  EXPECT_EQ(job.wait(0).exit_code, 0);
  const ProcessResult watched = watching.wait(0);
  EXPECT_EQ(watched.exit_code, 0);
  EXPECT_THAT(watched.log, HasSubstr("has ended"));
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(Status, SeveralJobs_AreListed) {
  auto one = serve(made_up_board(3), "aaaa1111"), other = serve(made_up_board(4), "bbbb2222");
  const ProcessResult list = lockstep({"status"}, env());
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.log,
              AllOf(HasSubstr("JOB"), HasSubstr("./train --lr 0.001"), HasSubstr("lockstep status JOB")));
  EXPECT_THAT(lockstep({"status", "bbbb"}, env()).log, HasSubstr("4 processes"));
  const ProcessResult none = lockstep({"status", "cccc"}, env());
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.log, HasSubstr("lockstep status: no job whose id begins with 'cccc'"));
}

TEST_F(Status, WithoutAJob_SaysWhereItLooked) {
  const ProcessResult result = lockstep({"status"}, env());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("no job of this user runs on this host"), HasSubstr(folder().native())));
}

TEST_F(Status, ALauncherWithoutASocket_RunsAndSaysSo) {
  std::ofstream(folder()) << "x";
  const ProcessResult result = lockstep(Words{"run", "-n", "1"} + shell("echo hello"), env());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[0] hello"), HasSubstr("lockstep status cannot ask for this job: ")));
}

}  // namespace
}  // namespace lockstep::cli
