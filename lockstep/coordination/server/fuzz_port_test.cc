// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/client/remote_service.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/membership.h"
#include "lockstep/coordination/server/http_frames_test.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/coordination/state/fuzz_test.h"

// Garbage, truncated and oversized messages to the coordinator's port, while a job is at work there.

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

/// The calls of the coordinator, and one that it does not have.
std::vector<std::string> paths() {
  std::vector<std::string> all = {kProve.path, "/xla.coordination.CoordinationService/NoSuchCall"};
  for_each_procedure([&](const Procedure& procedure) { all.emplace_back(procedure.path); });
  return all;
}

std::string header(const std::string& name, const std::string& value) {
  // A literal with a new name, not indexed; both shorter than 127 bytes, or cut.
  const std::string short_value = value.substr(0, 126);
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(short_value.size()) + short_value;
}

std::string call_headers(std::uint32_t stream, const std::string& path, const std::string& more) {
  std::string block = header(":method", "POST") + header(":scheme", "http") + header(":path", path) +
                      header(":authority", "coordinator") + header("content-type", "application/grpc") +
                      header("te", "trailers");
  return http_frame(1, 4, stream, block + more);
}

/// A field of a message, of a number and a type that the protocol may have there.
std::string random_field(Choices& choices, int depth) {
  const auto number = static_cast<int>(choices.number(1, 6));
  auto varint = [&](std::uint64_t value) {
    std::string text;
    for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
    return text + static_cast<char>(value);
  };
  auto small = [&] {
    return static_cast<std::uint64_t>(choices.one_in(5) ? choices.bits() : choices.number(0, 3));
  };
  switch (choices.number(0, 2)) {
    case 0:
      return static_cast<char>(number << 3) + varint(small());
    case 1:
      return static_cast<char>(number << 3 | 1) + big_endian(small(), 8);
    default: {
      std::string inner;
      if (depth > 0 && choices.one_in(2)) {
        for (std::int64_t i = choices.number(0, 3); i > 0; --i) inner += random_field(choices, depth - 1);
      } else {
        inner = choices.bytes(20);
      }
      return static_cast<char>(number << 3 | 2) + varint(inner.size()) + inner;
    }
  }
}

std::string random_message(Choices& choices) {
  std::string message;
  for (std::int64_t i = choices.number(0, 5); i > 0; --i) message += random_field(choices, 2);
  // The size that precedes a message: the true one, one too large, or one far too large.
  std::uint64_t size = message.size();
  if (choices.one_in(10)) size += static_cast<std::uint64_t>(choices.number(1, 1000));
  if (choices.one_in(10)) size = 0xffffffffu;
  return std::string(1, choices.one_in(10) ? '\1' : '\0') + big_endian(size, 4) + message;
}

const std::vector<std::string> kPaths = paths();

/// The bytes that a client that breaks the protocol sends over one connection.
std::string random_conversation(Choices& choices) {
  if (choices.one_in(6)) return choices.bytes(2000);
  std::string text = kHttpPreface;
  for (std::uint32_t stream = 1; stream < 2 * static_cast<std::uint32_t>(choices.number(1, 8)); stream += 2) {
    std::string more;
    if (choices.one_in(3)) more += header(kIdentityMetadata, choices.one_in(2) ? "AAAA" : choices.bytes(40));
    if (choices.one_in(5)) more += header("grpc-encoding", "gzip");
    text += call_headers(stream, choices.of(kPaths), more);
    text += http_frame(0, choices.one_in(8) ? 0 : 1, stream, random_message(choices));
    if (choices.one_in(8)) text += http_frame(3, 0, stream, big_endian(8, 4));  // The caller cancels.
  }
  return choices.one_in(3) ? choices.damaged(text) : text;
}

/// Sends the bytes, reads for a moment what comes, which it gives, and goes away; with `awaited`, at once
/// when that has come.
std::string converse(int port, const std::string& bytes, int wait_ms, const std::string& awaited = "") {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(fd, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << "the coordinator is gone";
  [[maybe_unused]] ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (awaited.empty()) ::shutdown(fd, wait_ms % 2 == 0 ? SHUT_WR : SHUT_RD);
  const auto end = Steady::now() + milliseconds(wait_ms);
  std::string answer;
  char buffer[4096];
  pollfd readable{fd, POLLIN, 0};
  while (Steady::now() < end && ::poll(&readable, 1, wait_ms) > 0) {
    const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
    if (!awaited.empty() && answer.find(awaited) != std::string::npos) break;
  }
  ::close(fd);
  return answer;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMostGrowth = std::size_t{4}
                                    << 30;  // Sanitizers keep what was freed, and shadows of all.
#else
constexpr std::size_t kMostGrowth = std::size_t{512} << 20;
#endif

/// In bytes, of this process.
std::size_t resident() {
  std::size_t total = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> total >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Fuzz, Port_AnyBytes_DoNotDisturbTheJob) {
  const auto deadline = fuzz_deadline(0.4);
  ServerOptions options;
  options.num_processes = 2;
  options.identity = {"job", 0, "secret"};
  CoordinationServer server;
  server.start(options);

  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> job;
  for (int process = 0; process < 2; ++process) {
    job.emplace_back([&, process] {
      ClientOptions client_options;
      client_options.address = server.address();
      client_options.process_id = process;
      client_options.num_processes = 2;
      client_options.identity = options.identity;
      auto client = make_grpc_client(client_options);
      client->connect();
      for (int round = 0;; ++round) {
        const std::string key = "k/" + std::to_string(round);
        if (process == 0) client->key_value_store().set(key, stop ? "stop" : key);
        const std::string value = client->key_value_store().get(key, seconds(60));
        client->barrier("b", seconds(60));
        ++rounds;
        if (value == "stop") break;
        EXPECT_EQ(value, key);
        std::this_thread::sleep_for(milliseconds(5));
      }
      EXPECT_FALSE(client->error());
      client->shutdown();
    });
  }

  // The parts of the random conversations are understood, and come as far as the gate.
  Choices choices(2);
  const std::string said =
      converse(server.port(),
               kHttpPreface + call_headers(1, "/lockstep.coordination.Job/Describe", "") +
                   http_frame(0, 1, 1, std::string(5, '\0')),
               30000, "coordinator");
  EXPECT_THAT(said, ::testing::HasSubstr("coordinator"));
  const std::size_t before = resident();
  std::uint64_t tries = 0;
  for (; Steady::now() < deadline && !HasFailure(); ++tries) {
    SCOPED_TRACE("seed " + std::to_string(Choices::seed()) + ", try " + std::to_string(tries));
    converse(server.port(), random_conversation(choices), static_cast<int>(choices.number(1, 8)));
  }
  EXPECT_LT(resident(), before + kMostGrowth) << "after " << tries << " tries";
  stop = true;
  for (auto& thread : job) thread.join();
  EXPECT_TRUE(server.all_left());
  EXPECT_FALSE(server.first_failure());
  EXPECT_GT(rounds, 2);
  EXPECT_GT(tries, 10u);
}

TEST(Fuzz, Port_OpenToAll_AnyCalls_LeaveItServing) {
  const auto deadline = fuzz_deadline(0.2);
  Choices choices(3);
  ServerOptions options;
  options.num_processes = 3;
  CoordinationServer server;
  server.start(options);
  auto service = make_remote_service(parse_address(server.address()));
  for (std::uint64_t tries = 0; Steady::now() < deadline && !HasFailure(); ++tries) {
    SCOPED_TRACE("seed " + std::to_string(Choices::seed()) + ", try " + std::to_string(tries));
    converse(server.port(), random_conversation(choices), static_cast<int>(choices.number(1, 8)));
    if (tries % 100 != 0) continue;
    EXPECT_THAT(ask_membership(*service), ::testing::HasSubstr("of 3 processes have joined"));
  }
  EXPECT_THAT(ask_membership(*service), ::testing::HasSubstr("of 3 processes have joined"));
}

}  // namespace
}  // namespace lockstep::coordination
