// SPDX-License-Identifier: Apache-2.0
// Processes that find each other between hosts, which are pretended: with certificates and without, and among
// strangers who connect and say nothing.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/limits.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

using coordination::TlsFiles;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TestAuthority;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// The options of a child that has a host of its own and carries no data.
WorldOptions options_of(coordination::KeyValueStore& store) {
  WorldOptions options = child_options(store, 1, testing::child_count());
  options.carries_data = false;
  options.job_secret = "secret";
  options.tls = TlsFiles::from(Environment::process());
  options.encrypt = std::getenv("LOCKSTEP_DATA_TLS") != nullptr;
  return options;
}

std::filesystem::path sign_of(const std::string& what, int process) {
  return shared_folder() / (what + std::to_string(process));
}

void show(const std::string& what) { std::ofstream(sign_of(what, testing::child_index())) << "here"; }

void wait_for(const std::string& what, int process) {
  while (!exists(sign_of(what, process))) std::this_thread::sleep_for(milliseconds(5));
}

testing::Variables variables(const TlsFiles& files) {
  if (!files.given()) return {};
  return {{"LOCKSTEP_TLS_CERTIFICATE", files.certificate},
          {"LOCKSTEP_TLS_KEY", files.key},
          {"LOCKSTEP_TLS_AUTHORITY", files.authority}};
}

/// Runs the child as two processes, with the files of each.
std::vector<testing::ProcessResult> run_two(const std::string& child, const TlsFiles& first,
                                            const TlsFiles& second) {
  return testing::run_processes(
      {.count = 2, .child = child, .env_of = [&](int i) { return variables(i == 0 ? first : second); }});
}

class PeersOnHosts : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  const TestAuthority ours_{folder_.path(), "ours"}, foreign_{folder_.path(), "foreign"};
  const TlsFiles a_ = ours_.issue({.name = "a"}), b_ = ours_.issue({.name = "b"});
};

LOCKSTEP_CHILD(meets_the_other_and_sees_it_die) {
  FolderKeyValueStore store(shared_folder());
  Job job(options_of(store), [] {});
  const int other = 1 - testing::child_index();
  job.peers().wait_connected(other, [] {});
  testing::say("met: " + job.peers().describe(other));
  show("met");
  wait_for("met", other);
  if (testing::child_index() == 1) raise(SIGKILL);
  const auto start = steady_clock::now();
  while (job.peers().state(1) != PeerState::kDied) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_LT(seconds_since(start), 5);
}

TEST_F(PeersOnHosts, WithEachKindOfSecurity_MeetAndSeeADeathAtOnce) {
  for (const auto& [first, second] : std::vector<std::pair<testing::Variables, testing::Variables>>{
           {{}, {}},
           {variables(a_), variables(b_)},
           {{{"LOCKSTEP_DATA_TLS", "1"}}, {{"LOCKSTEP_DATA_TLS", "1"}}}}) {
    const auto results =
        testing::run_processes({.count = 2, .child = "meets_the_other_and_sees_it_die", .env_of = [&](int i) {
                                  return i == 0 ? first : second;
                                }});
    EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
    EXPECT_THAT(results[0].log, HasSubstr("met: process 1 of 2 (host"));
    EXPECT_THAT(results[1].log, HasSubstr("met: process 0 of 2 (host"));
  }
}

LOCKSTEP_CHILD(says_why_it_does_not_meet_the_other) {
  FolderKeyValueStore store(shared_folder());
  const auto start = steady_clock::now();
  const int other = 1 - testing::child_index();
  std::unique_ptr<Job> job;
  testing::say("said: " + message_of<Error>([&] {
                 job = std::make_unique<Job>(options_of(store), [] {});
                 job->peers().wait_connected(other, [] {});
               }));
  EXPECT_LT(seconds_since(start), 20);
  // Stays until the other one has its error, which is not to say that this one is gone.
  show("said");
  wait_for("said", other);
}

TEST_F(PeersOnHosts, OneWithCertificatesAndOneWithout_BothSayWhyTheyDoNotMeet) {
  for (const int with : {0, 1}) {
    const auto results = run_two("says_why_it_does_not_meet_the_other", with == 0 ? a_ : TlsFiles(),
                                 with == 1 ? a_ : TlsFiles());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(results[i].exit_code, 0) << results[i].log;
      const auto named = [&](int process) {
        return std::string("process ") + std::to_string(process) + " of 2 (host ";
      };
      EXPECT_THAT(
          results[i].log,
          AllOf(HasSubstr("said: " + named(i)), HasSubstr(named(1 - i)),
                HasSubstr(i == with ? ") has certificates for TLS, but" : ") has none, but"),
                HasSubstr("set LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY")));
    }
  }
}

TEST_F(PeersOnHosts, OneThatEncryptsAndOneThatDoesNot_BothSayWhyTheyDoNotMeet) {
  const auto results = testing::run_processes(
      {.count = 2, .child = "says_why_it_does_not_meet_the_other", .env_of = [](int i) {
         return i == 0 ? testing::Variables{{"LOCKSTEP_DATA_TLS", "1"}} : testing::Variables{};
       }});
  EXPECT_THAT(results[0].log, AllOf(HasSubstr("said: process 0 of 2 (host "),
                                    HasSubstr("encrypts what it sends to other hosts, but process 1 of 2"),
                                    HasSubstr("does not: set LOCKSTEP_DATA_TLS=1")));
  EXPECT_THAT(results[1].log,
              AllOf(HasSubstr("said: process 1 of 2 (host "), HasSubstr("does not, but process 0"),
                    HasSubstr("encrypts what it sends to other hosts: set LOCKSTEP_DATA_TLS=1")));
}

TEST_F(PeersOnHosts, WithCertificatesOfTwoAuthorities_BothSayWhyTheyDoNotMeet) {
  const TlsFiles strange = foreign_.issue({});
  const auto results = run_two("says_why_it_does_not_meet_the_other", a_, strange);
  for (const auto& [log, own] : {std::pair(results[0].log, a_), std::pair(results[1].log, strange)}) {
    EXPECT_THAT(log, AllOf(HasSubstr("cannot connect to each other: the other side"),
                           HasSubstr(own.authority), HasSubstr("LOCKSTEP_TLS_AUTHORITY")));
  }
}

TEST_F(PeersOnHosts, AnExpiredCertificate_IsNamedByItsOwner) {
  using std::chrono::hours;
  const TlsFiles expired = ours_.issue({.name = "old", .from = hours(-48), .until = hours(-1)});
  const auto results =
      testing::run_processes({.count = 2, .child = "says_why_it_does_not_meet_the_other", .env_of = [&](int) {
                                return variables(expired);
                              }});
  for (const auto& result : results) {
    EXPECT_THAT(result.log,
                AllOf(HasSubstr(expired.certificate), HasSubstr("has expired: it was valid until"),
                      HasSubstr("this is the process (host ")));
  }
}

// Strangers.

SocketAddress address_of(FolderKeyValueStore& store, int process) {
  return *SocketAddress::parse(
      Address::decode(store.get("lockstep/collectives/test/" + std::to_string(process), milliseconds(30'000)))
          .control);
}

FileDescriptor connect_to(const SocketAddress& address) {
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), address.get(), address.size) != 0) return {};
  return fd;
}

std::ptrdiff_t count_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return std::distance(begin(open), end(open));
}

void allow_descriptors(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(count, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr int kFlood = 1000;

/// Process 0 is called by a flood, and process 1 both makes the flood and is the one who must come in.
LOCKSTEP_CHILD(comes_in_though_many_connect_who_say_nothing) {
  FolderKeyValueStore store(shared_folder());
  if (testing::child_index() == 0) {
    const std::ptrdiff_t before = count_descriptors();
    allow_descriptors(static_cast<rlim_t>(before) + kMostStrangers + 100);
    Job job(options_of(store), [] {});
    std::atomic<bool> over = false;
    std::ptrdiff_t most = 0;
    std::thread counting([&] {
      for (; !over; std::this_thread::sleep_for(milliseconds(5))) most = std::max(most, count_descriptors());
    });
    // Does nothing of its own, but is waited for.
    wait_for("met", 1);
    show("met");
    wait_for("seen", 1);
    over = true;
    counting.join();
    testing::say("met: " + job.peers().describe(1));
    EXPECT_LT(most, before + static_cast<std::ptrdiff_t>(kMostStrangers) + 40);
    EXPECT_GT(most, before + static_cast<std::ptrdiff_t>(kMostStrangers) / 2) << "there was no flood";
    return;
  }
  allow_descriptors(kFlood + 1000);
  const SocketAddress target = address_of(store, 0);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < kFlood; ++i) {
    silent.push_back(connect_to(target));
    EXPECT_TRUE(silent.back()) << "after " << i;
    // Some say what is none of the job's.
    if (i % 3 == 0 && send(silent.back().get(), "\x16\x03\x01", 3, MSG_NOSIGNAL) < 0) break;
  }
  Job job(options_of(store), [] {});
  const auto start = steady_clock::now();
  job.peers().wait_connected(0, [] {});
  testing::say("met in " + std::to_string(seconds_since(start)) + " s");
  const double limit = std::chrono::duration<double>(kLeastTimeToProve).count() * kFlood / kMostStrangers;
  EXPECT_LT(seconds_since(start), limit + 8) << "with the time that a busy machine may take";
  show("met");
  wait_for("met", 0);
  // And stays, while strangers go on.
  for (int i = 0; i < 200; ++i) silent.push_back(connect_to(target));
  std::this_thread::sleep_for(2 * kLeastTimeToProve);
  EXPECT_EQ(job.peers().state(0), PeerState::kConnected);
  show("seen");
}

TEST_F(PeersOnHosts, AmongManyStrangers_MeetInTime) {
  for (const bool tls : {false, true}) {
    const auto results =
        run_two("comes_in_though_many_connect_who_say_nothing", tls ? a_ : TlsFiles(), tls ? b_ : TlsFiles());
    for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_THAT(results[1].log, HasSubstr("met in "));
  }
}

/// Strangers come all the time, and faster than they are let go; and this process has hardly any descriptors.
LOCKSTEP_CHILD(comes_in_though_strangers_never_end) {
  FolderKeyValueStore store(shared_folder());
  const int self = testing::child_index();
  if (self == 0) allow_descriptors(static_cast<rlim_t>(count_descriptors()) + 30);
  Job job(options_of(store), [] {});
  std::atomic<bool> over = false;
  std::thread flood([&] {
    if (self == 0) return;
    const SocketAddress target = address_of(store, 0);
    std::vector<FileDescriptor> silent(200);
    for (std::size_t i = 0; !over; ++i) {
      silent[i % silent.size()] = connect_to(target);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  if (self == 1) {
    std::this_thread::sleep_for(milliseconds(500));
    const auto start = steady_clock::now();
    job.peers().wait_connected(0, [] {});
    testing::say("met in " + std::to_string(seconds_since(start)) + " s");
    show("met");
  }
  wait_for("met", 1);
  EXPECT_THAT(job.peers().describe(1 - self), HasSubstr("(host "));
  over = true;
  flood.join();
}

TEST_F(PeersOnHosts, UnderEndlessStrangers_MeetWithTheLastDescriptors) {
  const auto results = run_two("comes_in_though_strangers_never_end", a_, b_);
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
  EXPECT_THAT(results[0].log, Not(HasSubstr("Too many open files")));
}

LOCKSTEP_CHILD(lets_a_silent_stranger_go) {
  FolderKeyValueStore store(shared_folder());
  WorldOptions options = options_of(store);
  options.interface = "lo";
  options.process_count = 2;
  options.device_process = {0, 1};
  options.process_host = {"here", "there"};
  Job job(options, [] {});
  const FileDescriptor silent = connect_to(address_of(store, 0));
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  setsockopt(silent.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto start = steady_clock::now();
  char bytes[256];
  ssize_t got;
  while ((got = recv(silent.get(), bytes, sizeof bytes, 0)) > 0) {
  }
  EXPECT_EQ(got, 0);
  EXPECT_GE(seconds_since(start), std::chrono::duration<double>(kMostTimeToProve).count() - 1);
  EXPECT_LT(seconds_since(start), std::chrono::duration<double>(kMostTimeToProve).count() + 10);
}

TEST_F(PeersOnHosts, ASilentStranger_IsDisconnectedAfterTheTimeToProve) {
  for (const auto& result : testing::run_processes({.count = 1, .child = "lets_a_silent_stranger_go"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// Somebody else has the port of a process that has ended, and hangs up.
LOCKSTEP_CHILD(calls_one_who_always_hangs_up) {
  FolderKeyValueStore store(shared_folder());
  if (testing::child_index() == 0) {
    FileDescriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SocketAddress own = *SocketAddress::parse("127.0.0.1:0");
    socklen_t size = own.size;
    ASSERT_EQ(bind(listening.get(), own.get(), size), 0);
    ASSERT_EQ(listen(listening.get(), 10), 0);
    getsockname(listening.get(), own.get(), &size);
    store.set("lockstep/collectives/test/0",
              Address{"gone", "token", "there", "place", own.to_string()}.encode(), true);
    int calls = 0;
    for (; calls < 3; ++calls) FileDescriptor(accept(listening.get(), nullptr, nullptr));
    testing::say("called " + std::to_string(calls) + " times");
    return;  // Nobody listens any more.
  }
  Job job(options_of(store), [] {});
  testing::say("said: " + message_of<PeerFailure>([&] { job.peers().wait_connected(0, [] {}); }));
}

TEST_F(PeersOnHosts, AConnectionCutAtOnce_IsTriedAgainUntilNobodyListens) {
  const auto results = run_two("calls_one_who_always_hangs_up", {}, {});
  EXPECT_THAT(results[0].log, HasSubstr("called 3 times"));
  EXPECT_THAT(results[1].log, AllOf(HasSubstr("said: process 0 of 2 (host there) cannot be reached"),
                                    HasSubstr("Connection refused")));
}

LOCKSTEP_CHILD(checks_that_its_sockets_are_kept_alive) {
  ChildWorld world(1, {}, testing::child_count());
  const int n = testing::child_count();
  std::vector<int> devices;
  for (int device = 0; device < n; ++device) devices.push_back(device);
  const Call call = sum_call(4, n);
  std::vector<float> data(4, 1);
  world->communicator(devices).run(call, world.process(), data.data(), data.data());
  int connected = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(each.path().filename().string());
    sockaddr_storage other{};
    socklen_t size = sizeof other;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&other), &size) != 0) continue;
    if (other.ss_family != AF_INET && other.ss_family != AF_INET6) continue;
    ++connected;
    int on = 0;
    size = sizeof on;
    EXPECT_EQ(getsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
    EXPECT_EQ(on, 1) << each.path();
  }
  EXPECT_GE(connected, 2 * (n - 1)) << "a control and a data connection to each other process";
  world->communicator(devices).run(call, world.process(), data.data(), data.data());
}

TEST(ConnectionsToOtherHosts, AreKeptAlive) {
  for (const auto& result :
       testing::run_processes({.count = 3, .child = "checks_that_its_sockets_are_kept_alive"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
