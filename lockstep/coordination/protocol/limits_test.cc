// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/limits.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "coordination.grpc.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/expand.h"
#include "lockstep/coordination/server/http_frames_test.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/gzip.h"

// Tests of what the coordinator takes from anyone who reaches its port, while a job is at work there.

namespace lockstep::coordination {
namespace {

namespace pb = xla::coordination;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Identity kLimitedJob{"job", 0, "secret"};

ClientOptions client_of_job(const std::string& address, int process, int processes) {
  ClientOptions options;
  options.address = address;
  options.process_id = process;
  options.num_processes = processes;
  options.identity = kLimitedJob;
  return options;
}

/// Two processes that write and read keys and meet, from now until the end.
class JobAtWork {
 public:
  /// With `allow_jax` others can call it, too.
  explicit JobAtWork(const Limits& limits, bool allow_jax = false) {
    ServerOptions options;
    options.num_processes = 2;
    options.identity = kLimitedJob;
    options.allow_jax = allow_jax;
    options.limits = limits;
    server_.start(options);
    for (int process = 0; process < 2; ++process) {
      processes_.emplace_back([this, process] { work(process); });
    }
    wait_for_more();
  }

  ~JobAtWork() {
    wait_for_more();
    stop_ = true;
    for (auto& thread : processes_) thread.join();
    EXPECT_TRUE(server_.all_left());
    EXPECT_FALSE(server_.first_failure());
  }

  /// It has not stood still.
  void wait_for_more() {
    const auto end = Steady::now() + seconds(60);
    for (const int enough = rounds_ + 3; rounds_ < enough;) {
      ASSERT_LT(Steady::now(), end) << "the job stands still";
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  CoordinationServer& server() { return server_; }

 private:
  void work(int process) {
    auto client = make_grpc_client(client_of_job(server_.address(), process, 2));
    client->connect();
    for (int round = 0;; ++round) {
      const std::string key = "k/" + std::to_string(round);
      if (process == 0) client->key_value_store().set(key, stop_ ? "stop" : key);
      const std::string value = client->key_value_store().get(key, seconds(60));
      client->barrier("b", seconds(60));
      ++rounds_;
      if (value == "stop") break;
      std::this_thread::sleep_for(milliseconds(2));
    }
    EXPECT_FALSE(client->error());
    client->shutdown();
  }

  CoordinationServer server_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> rounds_ = 0;
  std::vector<std::thread> processes_;
};

/// A connection of somebody who has not the secret.
class Stranger {
 public:
  explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_GE(socket_, 0);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  bool say(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }

  /// Waits until the coordinator has said something; its settings come first.
  void hear() {
    char byte;
    EXPECT_EQ(::recv(socket_, &byte, 1, 0), 1);
  }

  /// All that comes until the text has come, or for so long.
  std::string hear_until(const std::string& text, milliseconds within) {
    const auto end = Steady::now() + within;
    std::string heard;
    while (heard.find(text) == std::string::npos) {
      const auto left = std::chrono::ceil<milliseconds>(end - Steady::now());
      pollfd readable{socket_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
      char bytes[4096];
      const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      heard.append(bytes, static_cast<std::size_t>(got));
    }
    return heard;
  }

  /// Whether the coordinator ends it, in this time.
  bool is_ended(milliseconds within) {
    const auto end = Steady::now() + within;
    char bytes[4096];
    do {
      const auto left = std::chrono::ceil<milliseconds>(end - Steady::now());
      pollfd readable{socket_, POLLIN, 0};
      if (::poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) return false;
      if (::recv(socket_, bytes, sizeof(bytes), 0) <= 0) return true;
    } while (Steady::now() < end);
    return false;
  }

 private:
  const int socket_;
};

/// The beginning of a call whose message is still to come.
std::string call(std::uint32_t stream, const std::string& path = "/lockstep.coordination.Job/Describe",
                 const std::string& encoding = "identity") {
  std::string block;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", path},
                                                        {":authority", "coordinator"},
                                                        {"content-type", "application/grpc"},
                                                        {"grpc-encoding", encoding},
                                                        {"te", "trailers"}}) {
    block += std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) +
             value;
  }
  return http_frame(1, 4, stream, block);
}

TEST(Limits, AMessageThatIsTooLarge_IsRefusedInWords_AndTheJobGoesOn) {
  constexpr int kLargest = 32 << 10;  // The thread sanitizer looks for long at each word.
  JobAtWork job({.largest_message = kLargest}, true);
  // A caller without the secret.
  grpc::ChannelArguments arguments;
  auto stub = pb::CoordinationService::NewStub(
      grpc::CreateCustomChannel(job.server().address(), grpc::InsecureChannelCredentials(), arguments));
  for (const int size : {kLargest / 2, kLargest * 2}) {
    grpc::ClientContext context;
    pb::InsertKeyValueRequest insert;
    insert.mutable_kv()->set_key("k");
    insert.mutable_kv()->set_value(std::string(static_cast<std::size_t>(size), 'x'));
    pb::InsertKeyValueResponse inserted;
    const bool refused = stub->InsertKeyValue(&context, insert, &inserted).error_code() ==
                         grpc::StatusCode::RESOURCE_EXHAUSTED;
    EXPECT_EQ(refused, size > kLargest) << size;
  }
  job.wait_for_more();

  // A process of the job.
  CoordinationServer another;
  ServerOptions options;
  options.identity = kLimitedJob;
  options.limits.largest_message = kLargest;
  another.start(options);
  auto client = make_grpc_client(client_of_job(another.address(), 0, 1));
  client->connect();
  try {
    client->key_value_store().set("large", std::string(2 * kLargest, 'x'));
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        AllOf(
            HasSubstr("[process 0 of 1] setting the key 'large' failed: it is more than the coordinator at " +
                      another.address() + " takes in one message"),
            HasSubstr(std::to_string(kLargest)), HasSubstr("put large data into a file")));
  }
  client->key_value_store().set("small", std::string(kLargest / 2, 'x'));
  EXPECT_EQ(client->key_value_store().get("small", seconds(60)).size(),
            static_cast<std::size_t>(kLargest / 2));
  client->shutdown();
}

TEST(Limits, TooManyCallsOfOneConnection_EndIt_AndTheJobGoesOn) {
  constexpr int most = 64;
  JobAtWork job({.calls = most, .calls_per_process = 0}, true);
  const auto calls = [](int first, int last) {
    std::string all;
    for (int i = first; i < last; ++i) all += call(static_cast<std::uint32_t>(2 * i + 1));
    return all;
  };
  Stranger modest(job.server().port()), greedy(job.server().port());
  EXPECT_TRUE(modest.say(kHttpPreface + calls(0, most / 2)));
  greedy.say(kHttpPreface + calls(0, most));
  // It holds from when the coordinator has said so and the other side has answered.
  greedy.hear();
  greedy.say(http_frame(4, 1, 0, ""));
  greedy.say(calls(most, 3 * most));
  EXPECT_TRUE(greedy.is_ended(seconds(60)));
  EXPECT_FALSE(modest.is_ended(milliseconds(10)));
  job.wait_for_more();
}

std::ptrdiff_t count_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return std::distance(begin(open), end(open));
}

TEST(Limits, TooManyConnections_AreClosed_AndTheJobGoesOn) {
  constexpr std::size_t kMost = 32;
#ifdef __SANITIZE_THREAD__
  constexpr int kFlood = 100;  // gRPC takes long to end each.
#else
  constexpr int kFlood = 600;
#endif
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 2000) GTEST_SKIP() << "this process may not have enough descriptors";
  const rlimit enough{std::max<rlim_t>(before.rlim_cur, 2000), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &enough);
  {
    JobAtWork job({.most_strangers = kMost, .least_time = milliseconds(50)});
    CoordinationServer another;
    ServerOptions options;
    options.identity = kLimitedJob;
    options.limits = {.most_strangers = kMost, .least_time = milliseconds(50)};
    another.start(options);
    const std::ptrdiff_t descriptors = count_descriptors();
    std::vector<std::unique_ptr<Stranger>> flood;
    std::ptrdiff_t most = 0;
    for (int i = 0; i < kFlood; ++i) {
      for (CoordinationServer* each : {&job.server(), &another}) {
        flood.push_back(std::make_unique<Stranger>(each->port()));
        // Some speak, and are refused.
        if (i % 3 == 0) flood.back()->say(kHttpPreface + call(1) + http_frame(0, 1, 1, std::string(5, '\0')));
      }
      most = std::max(most, count_descriptors() - static_cast<std::ptrdiff_t>(flood.size()));
    }
    // A process of the job comes in the middle of it.
    const auto began = Steady::now();
    auto client = make_grpc_client(client_of_job(another.address(), 0, 1));
    client->connect();
    EXPECT_LT(Steady::now() - began, seconds(60));
    most = std::max(most, count_descriptors() - static_cast<std::ptrdiff_t>(flood.size()));
    // Each stranger has two descriptors, the listener's and the server's, and some are on their way out.
    EXPECT_LT(most - descriptors, static_cast<std::ptrdiff_t>(2 * 3 * kMost + 60));
    job.wait_for_more();
    EXPECT_TRUE(flood.front()->is_ended(seconds(30)));
    client->key_value_store().set("k", "v");
    client->shutdown();
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Limits, AStrangerWhoKeepsSending_IsDisconnected_AndTheJobsProcessesStay) {
  JobAtWork job({.silence = milliseconds(1500)});
  Stranger talkative(job.server().port());
  talkative.say(kHttpPreface);
  const auto began = Steady::now();
  while (!talkative.is_ended(milliseconds(100))) {
    talkative.say(http_frame(6, 0, 0, std::string(8, '\0')));
    ASSERT_LT(Steady::now() - began, seconds(30));
  }
  EXPECT_GT(Steady::now() - began, milliseconds(1000));
  std::this_thread::sleep_for(milliseconds(2000));
  job.wait_for_more();
}

TEST(Limits, GzipIsExpanded_UpToALimit) {
  const std::string plain(1000, 'x'), packed = testing::gzip(plain);
  EXPECT_EQ(expanded(packed, 1000), plain);
  EXPECT_EQ(expanded(packed, 999), std::nullopt);
  EXPECT_EQ(expanded(plain, 1000), plain) << "not compressed";
  EXPECT_EQ(expanded(plain, 999), std::nullopt);
  EXPECT_EQ(expanded(testing::gzip(""), 0), "");
  EXPECT_EQ(expanded(packed.substr(0, packed.size() - 1), 1000), std::nullopt) << "cut";
  EXPECT_EQ(expanded(packed + "x", 1000), std::nullopt) << "followed by more";
}

/// A coordinator that lets JAX's processes in, which cannot prove anything.
class OpenToJax {
 public:
  OpenToJax() {
    ServerOptions options;
    options.identity = kLimitedJob;
    options.allow_jax = true;
    server_.start(options);
  }
  const CoordinationServer& server() const { return server_; }

 private:
  CoordinationServer server_;
};

TEST(Limits, GzipBombs_AreNotExpanded) {
  const OpenToJax open;
  // A sixteenth of a mebibyte at most may be in a stranger's request, or what it becomes.
  const std::string bomb = testing::gzip(std::string(std::size_t{48} << 20, '\0'));
  ASSERT_LT(bomb.size(), std::size_t{60} << 10);
  for (const char* method : {"GetKeyValue", "InsertKeyValue", "RegisterTask", "Barrier", "WatchTasks"}) {
    Stranger stranger(open.server().port());
    const std::string path = std::string("/xla.coordination.CoordinationService/") + method;
    const std::string message = '\1' + big_endian(bomb.size(), 4) + bomb;
    std::string all = kHttpPreface + call(1, path, "gzip");
    for (std::size_t at = 0; at < message.size(); at += 16 << 10) {
      const std::string some = message.substr(at, 16 << 10);
      all += http_frame(0, at + some.size() == message.size() ? 1 : 0, 1, some);
    }
    stranger.say(all);
    EXPECT_THAT(stranger.hear_until("bytes", seconds(60)), HasSubstr("has more than 65536 bytes")) << method;
  }
}

TEST(Limits, EndlessHeaders_EndTheConnection) {
  const OpenToJax open;
  Stranger stranger(open.server().port());
  // A value of two billion bytes, of which some come.
  stranger.say(kHttpPreface +
               http_frame(1, 0, 1, std::string("\0\1x\x7f\x81\xa7\xd6\xb9\7", 9) + std::string(1000, 'a')));
  const std::string some = http_frame(9, 0, 1, std::string(16 << 10, 'a'));
  const auto began = Steady::now();
  while (stranger.say(some)) ASSERT_LT(Steady::now() - began, seconds(60));
}

}  // namespace
}  // namespace lockstep::coordination
