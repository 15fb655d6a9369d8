// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/client/serves_already.h"
#include "lockstep/coordination/server/server.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Identity kJob{"job", 1, "a secret of the tests"};

struct Outcome {
  bool proved = false;
  Status result;
  std::string to_server, to_client;
};

/// Both sides, with `piece` bytes at a time.
Outcome greet(const Gate& gate, const Identity& identity, std::size_t piece) {
  GreetingAnswer answers(gate);
  GreetingCall calls(identity, {"host", 4711});
  Outcome outcome;
  std::string to_server = calls.first_bytes(), to_client;
  while (calls.missing() != 0 && !(to_server.empty() && to_client.empty())) {
    const auto pass = [&](std::string& from, auto& side, std::string& back, std::string& all) {
      const std::string some = from.substr(0, std::min(piece, side.missing()));
      from.erase(0, some.size());
      all += some;
      if (!some.empty()) back += side.receive(some);
    };
    pass(to_server, answers, to_client, outcome.to_server);
    pass(to_client, calls, to_server, outcome.to_client);
  }
  outcome.proved = answers.missing() == 0 && answers.proved();
  outcome.result = calls.result();
  return outcome;
}

TEST(Greeting, TheJobsOwnProcess_IsAccepted_InPiecesOfAnySize) {
  const Gate gate(kJob, false);
  for (const std::size_t piece : {1u, 2u, 7u, 1000u}) {
    const Outcome outcome = greet(gate, kJob, piece);
    EXPECT_TRUE(outcome.proved);
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.message;
    EXPECT_EQ((outcome.to_server + outcome.to_client).find(kJob.secret), std::string::npos);
  }
}

TEST(Greeting, ProcessesOfOtherJobs_AreRefusedWithTheReason) {
  const Gate gate(kJob, false), open({"job", 1, ""}, false);
  const auto expect_refused = [](const Outcome& outcome, const std::string& why) {
    EXPECT_FALSE(outcome.proved);
    EXPECT_EQ(outcome.result.code, Code::kPermissionDenied);
    EXPECT_TRUE(outcome.result.service_error);
    EXPECT_THAT(outcome.result.message, HasSubstr(why));
  };
  expect_refused(greet(gate, {"job", 1, "another of the tests"}, 100), "has another secret than");
  expect_refused(greet(gate, {"job", 0, kJob.secret}, 100), "belongs to job 'job', attempt 0");
  expect_refused(greet(gate, {"other", 1, kJob.secret}, 100), "belongs to job 'other', attempt 1");
  expect_refused(greet(open, kJob, 100), "but the coordinator has none");
}

TEST(Greeting, ReplayedBytes_ProveNothing) {
  const Gate gate(kJob, false);
  const Outcome seen = greet(gate, kJob, 1000);
  GreetingAnswer answers(gate);
  std::string bytes = seen.to_server, answer;
  while (answers.missing() != 0 && !bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), answers.missing());
    answer += answers.receive(bytes.substr(0, some));
    bytes.erase(0, some);
  }
  EXPECT_FALSE(answers.proved());
  EXPECT_THAT(answer, HasSubstr("another secret"));

  GreetingCall calls(kJob, {"host", 4711});
  bytes = seen.to_client;
  while (calls.missing() != 0 && !bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), calls.missing());
    calls.receive(bytes.substr(0, some));
    bytes.erase(0, some);
  }
  EXPECT_EQ(calls.missing(), 0u);
  EXPECT_EQ(calls.result().code, Code::kInternal) << "a server that has only listened";
}

TEST(Greeting, AnyChangedByte_FailsIt) {
  const Gate gate(kJob, false);
  const std::size_t size = greet(gate, kJob, 1000).to_client.size();
  for (std::size_t at = 0; at < size; ++at) {
    GreetingAnswer answers(gate);
    GreetingCall calls(kJob, {"host", 4711});
    std::string to_server = calls.first_bytes();
    std::size_t passed = 0;
    while (calls.missing() != 0 && answers.missing() != 0 && !to_server.empty()) {
      std::string back;
      while (!to_server.empty() && answers.missing() != 0) {
        const std::size_t some = std::min(to_server.size(), answers.missing());
        back += answers.receive(to_server.substr(0, some));
        to_server.erase(0, some);
      }
      for (char c : back) {
        if (calls.missing() == 0) break;
        if (passed++ == at) c = static_cast<char>(c ^ 1);
        to_server += calls.receive({&c, 1});
      }
    }
    EXPECT_FALSE(calls.missing() == 0 && calls.result().ok()) << "byte " << at;
  }
}

/// Somebody who listens at a port, and answers each connection with these bytes.
class Listening {
 public:
  explicit Listening(std::string answer) : answer_(std::move(answer)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(::listen(socket_, 10), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
    thread_ = std::thread([this] {
      for (int fd; (fd = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(fd)) {
        char bytes[4096];
        if (::recv(fd, bytes, sizeof bytes, 0) <= 0) continue;
        if (::send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) continue;
        while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
        }
      }
    });
  }
  ~Listening() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  const std::string& address() const { return address_; }

 private:
  const std::string answer_;
  int socket_;
  std::string address_;
  std::thread thread_;
};

std::string error_of_joining(const std::string& address, milliseconds timeout) {
  ClientOptions options;
  options.address = address;
  options.identity = kJob;
  options.initialization_timeout = timeout;
  try {
    make_grpc_client(options)->connect();
  } catch (const InitializationError& error) {
    return error.what();
  }
  return "";
}

TEST(Greeting, AnotherProgramAtThePort_IsReportedAtOnce) {
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2p1\r\n"),
        std::string("\0\0\0\4\0\0\0\0\0", 9), std::string("lockstep hello 1x"), std::string(100'000, 'l')}) {
    const Listening listening(answer);
    EXPECT_THAT(error_of_joining(listening.address(), seconds(300)),
                HasSubstr("cannot prove to have the job's secret (it does not speak this protocol)"))
        << answer.substr(0, 20);
  }
}

TEST(Greeting, WithoutASecret_TheErrorSaysWhatTheProgramAtThePortAnswers) {
  const Listening listening("HTTP/1.1 400 Bad Request\r\n\r\n");
  ClientOptions options;
  options.address = listening.address();
  std::string found;
  EXPECT_FALSE(serves_already(options, &found));
  EXPECT_THAT(found, HasSubstr("does not answer as a coordinator does ("));
}

TEST(Greeting, AReasonOfAnyBytes_IsShownAsPrintableText) {
  std::string refusal = greeting_refusal("\x1b]0;title\a\xff no");
  const Listening listening(refusal);
  EXPECT_THAT(error_of_joining(listening.address(), seconds(300)), HasSubstr("\\x1b]0;title\\x07\\xff no"));
}

TEST(Greeting, ALostConnection_IsOpenedAgain) {
  ServerOptions options;
  options.identity = kJob;
  options.keep = true;
  auto server = std::make_unique<CoordinationServer>();
  server->start(options);
  options.bind_address = server->address();
  ClientOptions client;
  client.address = server->address();
  client.identity = kJob;
  client.initialization_timeout = seconds(60);
  make_grpc_client(client)->connect();
  server.reset();
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(200));
    server = std::make_unique<CoordinationServer>();
    server->start(options);
  });
  auto again = make_grpc_client(client);
  again->connect();
  later.join();
  again->shutdown();
}

}  // namespace
}  // namespace lockstep::coordination
