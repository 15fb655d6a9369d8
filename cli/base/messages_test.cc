// SPDX-License-Identifier: Apache-2.0
#include "cli/base/messages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "cli/base/message_pipe.h"
#include "cli/hosts/agent_protocol.h"
#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;

TEST(Messages, AnyBytes_AreReadBackUnchanged) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Message message = {"out", "3", all, "", "\\n is not \n"};
  const std::string line = to_line(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(from_line(line.substr(0, line.size() - 1)), message);
}

TEST(Messages, AnUnknownEscape_IsRefused) {
  EXPECT_EQ(from_line("a\\x"), std::nullopt);
  EXPECT_EQ(from_line("a\\"), std::nullopt);
}

TEST(Messages, TakeLines_LeavesAnUnfinishedLine) {
  std::string buffer = "one\ntwo\nthr";
  EXPECT_THAT(take_lines(buffer), ElementsAre("one", "two"));
  EXPECT_EQ(buffer, "thr");
  buffer += "ee\n";
  EXPECT_THAT(take_lines(buffer), ElementsAre("three"));
}

TEST(Messages, LinesThatArriveInPieces_AreSearchedOnce) {
  std::string buffer = "a\nb";  // as if the first three bytes had been searched
  EXPECT_THAT(take_lines(buffer, 3), ElementsAre());
  buffer = "abc\nd\ne";
  EXPECT_THAT(take_lines(buffer, 3), ElementsAre("abc", "d"));
  EXPECT_EQ(buffer, "e");
}

class Pipe : public ::testing::Test {
 protected:
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pipe_.emplace(ends[0], -1);
    end_ = ends[1];
  }
  ~Pipe() override { close(end_); }

  std::vector<std::string> read_after(const std::string& bytes) {
    EXPECT_EQ(write(end_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return pipe_->read(100);
  }

  std::optional<MessagePipe> pipe_;
  int end_ = -1;
};

TEST_F(Pipe, ATooLongLine_EndsTheStream_AfterTheLinesBeforeIt) {
  EXPECT_THAT(read_after("one\n" + std::string(60, 'x')), ElementsAre("one"));
  EXPECT_THAT(read_after(std::string(40, 'x') + "\n"), ElementsAre(std::string(100, 'x')));
  EXPECT_FALSE(pipe_->line_too_long());
  EXPECT_THAT(read_after("two\n" + std::string(101, 'x') + "\nthree\n"), ElementsAre("two"));
  EXPECT_TRUE(pipe_->line_too_long());
  EXPECT_TRUE(pipe_->in_ended());
}

TEST_F(Pipe, AnEndlessLine_IsNotKept) {
  EXPECT_THAT(read_after(std::string(101, 'x')), ElementsAre());
  EXPECT_TRUE(pipe_->line_too_long());
  EXPECT_THAT(pipe_->read(100), ElementsAre());
}

TEST(MessagePipes, AMegabyteInPieces_IsSearchedOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  MessagePipe pipe(ends[0], -1);
  const std::string piece(64, 'x');
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kPieces = 1 << 17;  // 8 MiB: as many searches of all of it would read 512 GiB
  for (int i = 0; i < kPieces; ++i) {
    ASSERT_EQ(write(ends[1], piece.data(), piece.size()), 64);
    EXPECT_TRUE(pipe.read().empty());
  }
  close(ends[1]);
  EXPECT_EQ(pipe.read().at(0).size(), std::size_t{64} * kPieces);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Messages, ANumberWithOtherTextOrOutOfRange_IsRefused) {
  EXPECT_EQ(number_of("-12"), -12);
  for (const char* word : {"", "1x", "x"}) EXPECT_THROW(number_of(word), Error);
  EXPECT_EQ(int_of("-2147483648"), std::numeric_limits<int>::min());
  for (const char* word : {"2147483648", "4294967297", "x"}) EXPECT_THROW(int_of(word), Error);
}

TEST(AgentProtocol, AJob_IsReadBackUnchanged) {
  HostJob job{.command = {"./program", "a b", "tab\there"}, .folder = "/a folder", .bind = false};
  job.silence = std::chrono::seconds(7);
  job.first_on_host = 2;
  job.on_host = 4;
  job.processes = {{.number = 2, .variables = {{"A", "1"}, {"B", "x=\ny"}}},
                   {.number = 3, .variables = {}, .send_output = false}};
  job.log_folder = "/a log";
  job.attempt = 2;
  HostJobReader reader;
  for (const Message& message : to_messages(job)) {
    EXPECT_FALSE(reader.complete());
    EXPECT_TRUE(reader.take(message));
  }
  ASSERT_TRUE(reader.complete());
  EXPECT_EQ(reader.job().command, job.command);
  EXPECT_EQ(reader.job().folder, job.folder);
  EXPECT_EQ(reader.job().bind, false);
  EXPECT_EQ(reader.job().silence, job.silence);
  EXPECT_EQ(reader.job().first_on_host, 2);
  EXPECT_EQ(reader.job().on_host, 4);
  ASSERT_EQ(reader.job().processes.size(), 2u);
  EXPECT_EQ(reader.job().processes[0].variables, job.processes[0].variables);
  EXPECT_EQ(reader.job().processes[1].number, 3);
  EXPECT_TRUE(reader.job().processes[0].send_output);
  EXPECT_FALSE(reader.job().processes[1].send_output);
  EXPECT_EQ(reader.job().log_folder, "/a log");
  EXPECT_EQ(reader.job().attempt, 2);
}

TEST(AgentProtocol, AVariableOfAllProcesses_IsSentOnce) {
  HostJob job{.command = {"program"}};
  job.on_host = 2;
  job.processes = {{.number = 0, .variables = {{"ALL", "same"}, {"OWN", "a"}, {"SOME", "x"}}},
                   {.number = 1, .variables = {{"ALL", "same"}, {"OWN", "b"}}}};
  HostJobReader reader;
  int sent = 0;
  for (const Message& message : to_messages(job)) {
    sent += static_cast<int>(std::ranges::count(message, "ALL=same"));
    reader.take(message);
  }
  EXPECT_EQ(sent, 1);
  ASSERT_EQ(reader.job().processes.size(), 2u);
  EXPECT_EQ(reader.job().processes[0].variables, job.processes[0].variables);
  EXPECT_EQ(reader.job().processes[1].variables, job.processes[1].variables);
}

TEST(AgentProtocol, AMalformedJobIsRefused) {
  EXPECT_THROW(HostJobReader().take({"start"}), Error);
  EXPECT_THROW(HostJobReader().take({"process"}), Error);
  EXPECT_THROW(HostJobReader().take({"process", "0", "NOVALUE"}), Error);
  EXPECT_FALSE(HostJobReader().take({"signal", "0", "15"}));
}

TEST(AgentProtocol, HostsOfARelay_AreReadBack_TheFirstAsItsOwn) {
  const AgentTreeOptions hosts{.first = 3,
                               .hosts = {"user@b", "c"},
                               .here = 0,
                               .fan_out = 2,
                               .silence = std::chrono::seconds(7),
                               .folder = "/a folder",
                               .rsh = {"ssh", "-i", "my key"},
                               .tool = "/bin/lockstep"};
  RelayJobReader reader;
  for (const Message& message : to_messages(hosts)) {
    EXPECT_FALSE(reader.complete());
    EXPECT_TRUE(reader.take(message));
  }
  ASSERT_TRUE(reader.complete());
  EXPECT_EQ(reader.hosts().first, 3);
  EXPECT_EQ(reader.hosts().hosts, hosts.hosts);
  EXPECT_EQ(reader.hosts().here, 1);
  EXPECT_EQ(reader.hosts().from, "user@b");
  EXPECT_EQ(reader.hosts().fan_out, 2);
  EXPECT_EQ(reader.hosts().silence, hosts.silence);
  EXPECT_EQ(reader.hosts().folder, hosts.folder);
  EXPECT_FALSE(reader.hosts().by_slurm);
  EXPECT_EQ(reader.hosts().rsh, hosts.rsh);
  EXPECT_EQ(reader.hosts().tool, hosts.tool);
}

TEST(AgentProtocol, MalformedHostsOfARelay_AreRefused) {
  EXPECT_THROW(RelayJobReader().take({"hosts", "0"}), Error);
  EXPECT_THROW(RelayJobReader().take({"limits", "0", "1000"}), Error);
  EXPECT_THROW(RelayJobReader().take({"starts", "rsh", "/bin/lockstep"}), Error);
  EXPECT_FALSE(RelayJobReader().take({"start"}));
}

TEST(AgentProtocol, AForwardedLine_BeginsWithItsHost) {
  const auto line = addressed_line("of\t12\tout\t3\ttext", kOfHost);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->host, 12);
  EXPECT_EQ(line->line, "out\t3\ttext");
  for (const char* other : {"to\t1\tx", "of\tx\ty", "of\t1", "of\t", "out\t3\ttext"})
    EXPECT_FALSE(addressed_line(other, kOfHost)) << other;
}

}  // namespace
}  // namespace lockstep::cli
