// SPDX-License-Identifier: Apache-2.0
// A device that comes late to an operation over hosts: what others send to it waits, and holds little memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/collectives/network.h"
#include "lockstep/collectives/networks.h"
#include "lockstep/collectives/socket_address.h"
#include "lockstep/collectives/tcp_link.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/coordination/tls/tls.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1 << 20;

struct LateKind {
  int connections;
  bool tls;
};

/// Mailboxes that hold 1 MiB of messages that nobody has asked for; all make progress.
class LateMailboxes {
 public:
  LateMailboxes(int count, const LateKind& kind) {
    for (int i = 0; i < count; ++i) {
      networks_.push_back(Network::open({.interface = "lo",
                                         .network = "tcp",
                                         .connections = kind.connections,
                                         .unexpected_messages_mib = 1,
                                         .secret = "s",
                                         .tls = kind.tls ? coordination::Tls::from_secret("s") : nullptr}));
      all_.push_back(networks_.back()->open_mailbox());
    }
  }
  Mailbox& operator[](int i) { return *all_[static_cast<std::size_t>(i)]; }
  void destroy(int i) { all_[static_cast<std::size_t>(i)].reset(); }

  bool until(const std::function<bool()>& done, milliseconds limit = testing::kAtOnce) {
    for (const auto end = steady_clock::now() + limit; !done();) {
      if (steady_clock::now() > end) return false;
      for (const auto& mailbox : all_)
        if (mailbox) mailbox->progress();
      std::this_thread::yield();
    }
    return true;
  }
  /// The endpoints of `to` at `from`, and back.
  std::pair<int, int> connect(int from, int to) {
    const int there = (*this)[from].connect((*this)[to].address());
    char in = 0, out = 'x';
    Transfer receives = (*this)[to].receive(-1, 1, &in, 1), sends = (*this)[from].send(there, 1, &out, 1);
    EXPECT_TRUE(until([&] { return (*this)[to].finished(receives) && (*this)[from].finished(sends); }));
    return {there, (*this)[to].connect((*this)[from].address())};
  }

 private:
  std::vector<std::shared_ptr<Network>> networks_;
  std::vector<std::unique_ptr<Mailbox>> all_;
};

/// More than the sockets of a connection hold.
std::vector<std::byte> large(int seed) {
  std::vector<std::byte> data(32 * kMiB);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i * 31 + i / 4096 + static_cast<std::size_t>(seed));
  return data;
}

class UnexpectedMessages : public ::testing::TestWithParam<LateKind> {};

TEST_P(UnexpectedMessages, WaitInTheSender_UntilTheReceiverAsks) {
  LateMailboxes mailbox(2, GetParam());
  const auto [to, from] = mailbox.connect(0, 1);
  const std::vector<std::byte> out = large(1);
  std::vector<std::byte> in(out.size());
  Transfer sends = mailbox[0].send(to, 7, out.data(), out.size());
  EXPECT_FALSE(mailbox.until([&, to = to] { return mailbox[0].finished(sends); }, milliseconds(200)));
  Transfer receives = mailbox[1].receive(from, 7, in.data(), in.size());
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(sends) && mailbox[1].finished(receives); }));
  EXPECT_TRUE(in == out);
}

/// Awaited messages arrive, whatever precedes them on the same connections.
TEST_P(UnexpectedMessages, DoNotBlockTheOnesBehind) {
  LateMailboxes mailbox(3, GetParam());
  const auto [to, from] = mailbox.connect(0, 1);
  const auto [third_to, third_from] = mailbox.connect(2, 1);
  const std::vector<std::byte> first = large(1), second = large(2), third = large(3);
  std::vector<std::byte> in(first.size());
  Transfer sends[] = {mailbox[0].send(to, 7, first.data(), first.size()),
                      mailbox[0].send(to, 8, second.data(), second.size()),
                      mailbox[2].send(third_to, 9, third.data(), third.size()),
                      mailbox[0].send(to, 10, "yes", 4)};
  EXPECT_FALSE(mailbox.until([&] { return mailbox[0].finished(sends[0]); }, milliseconds(100)));
  char heard[4] = "";
  const auto comes = [&](int endpoint, std::uint64_t tag, void* into, std::size_t bytes) {
    Transfer receives = mailbox[1].receive(endpoint, tag, into, bytes);
    return mailbox.until([&] { return mailbox[1].finished(receives); });
  };
  ASSERT_TRUE(comes(third_from, 9, in.data(), in.size()));
  EXPECT_TRUE(in == third);
  ASSERT_TRUE(comes(from, 10, heard, sizeof heard));
  EXPECT_STREQ(heard, "yes");
  ASSERT_TRUE(comes(from, 8, in.data(), in.size()));
  EXPECT_TRUE(in == second);
  ASSERT_TRUE(comes(from, 7, in.data(), in.size()));
  EXPECT_TRUE(in == first);
}

TEST_P(UnexpectedMessages, FromASenderThatHasLeft_AreReceived) {
  LateMailboxes mailbox(2, GetParam());
  const auto [to, from] = mailbox.connect(0, 1);
  const std::vector<std::byte> out(2 * kMiB, std::byte{7});
  std::vector<std::byte> in(out.size());
  Transfer sends = mailbox[0].send(to, 7, out.data(), out.size());
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(sends); }));
  mailbox.destroy(0);
  mailbox.until([] { return false; }, milliseconds(50));
  Transfer receives = mailbox[1].receive(from, 7, in.data(), in.size());
  ASSERT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives); }));
  EXPECT_EQ(receives.error, nullptr);
  EXPECT_TRUE(in == out);
  EXPECT_TRUE(mailbox.until([&, from = from] { return mailbox[1].broken(from) != nullptr; }));
}

TEST_P(UnexpectedMessages, ToAReceiverThatEnds_Fail) {
  LateMailboxes mailbox(2, GetParam());
  const int to = mailbox.connect(0, 1).first;
  const std::vector<std::byte> out = large(1);
  Transfer sends = mailbox[0].send(to, 7, out.data(), out.size());
  mailbox.until([] { return false; }, milliseconds(50));
  mailbox.destroy(1);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(sends); }));
  EXPECT_NE(sends.error, nullptr);
}

/// The sending side of two connections to a mailbox, which a test can end one by one.
class TwoConnections final : public LinkOwner {
 public:
  TwoConnections(std::string_view address, const std::function<void()>& other_side) {
    const std::string id(address.substr(kTcpAddress.size(), proof_.own.size()));
    const auto to = SocketAddress::parse(std::string(address.substr(address.rfind(' ') + 1)));
    for (int number = 0; number < 2; ++number) {
      FileDescriptor fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(fd.get(), to->get(), to->size), 0);
      EXPECT_EQ(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
      links_[number] = std::make_unique<Link>(*this, proof_, std::move(fd), id, number);
    }
    const auto end = steady_clock::now() + testing::kAtOnce;
    while ((!links_[0]->is_open() || !links_[1]->is_open()) && steady_clock::now() < end) {
      for (auto& link : links_)
        if (!link->read_some()) link->send_some();
      other_side();
    }
  }
  /// Sends half of the message over one of the two.
  void send(int number, const std::vector<std::byte>& message) {
    const std::size_t half = message.size() / 2, offset = number == 0 ? 0 : half;
    Request request;
    links_[number]->send({.tag = 7, .message = 1, .bytes = message.size(), .offset = offset, .length = half},
                         message.data() + offset, &request);
    links_[number]->send_some();
    EXPECT_TRUE(request.done);
  }
  void end(int number) { links_[number]->end("it has left"); }

 private:
  bool proved(Link&) override { return true; }
  Incoming* begins(Link&, const PartHeader&) override { return nullptr; }
  void has_arrived(Incoming&) override {}

  const LinkProof proof_{"s", std::string(32, 'a')};
  std::unique_ptr<Link> links_[2];
};

/// The kernel of a sender that has left still sends, and ends one connection before another.
TEST(OpenConnection, AfterAnotherHasEnded_BringsTheRestOfTheMessage) {
  LateMailboxes mailbox(1, {.connections = 2, .tls = false});
  TwoConnections sender(mailbox[0].address(), [&] { mailbox[0].progress(); });
  const std::vector<std::byte> out(16 << 10, std::byte{7});
  std::vector<std::byte> in(out.size());
  Transfer receives = mailbox[0].receive(-1, 7, in.data(), in.size());
  sender.send(0, out);
  sender.end(0);
  EXPECT_FALSE(mailbox.until([&] { return mailbox[0].finished(receives); }, milliseconds(50)));
  sender.send(1, out);
  sender.end(1);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(receives); }));
  EXPECT_EQ(receives.error, nullptr);
  EXPECT_TRUE(in == out);
}

INSTANTIATE_TEST_SUITE_P(Over, UnexpectedMessages,
                         ::testing::Values(LateKind{1, false}, LateKind{4, false}, LateKind{1, true},
                                           LateKind{4, true}),
                         [](const auto& info) {
                           return (info.param.tls ? "Encrypted" : "") + std::string("Connections") +
                                  std::to_string(info.param.connections);
                         });

// Whole operations.

/// A line of /proc/self/status, in MiB.
long memory(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::atol(line.c_str() + key.size()) / 1024;
  return 0;
}

constexpr int kMost = 8;    ///< MiB of unexpected messages
constexpr int kOther = 12;  ///< MiB of buffers of an operation

/// Process 1 comes late to each kind of operation. Of several members on each host, all of the second host
/// do.
LOCKSTEP_CHILD(comes_late) {
  FolderKeyValueStore store(shared_folder());
  const int rank = testing::child_index(), n = testing::child_count();
  WorldOptions options = child_options(store, 1, /*hosts=*/2);
  options.unexpected_messages_mib = kMost;
  options.arena = nullptr;
  const auto world = World::create(std::move(options));
  std::vector<int> devices(static_cast<std::size_t>(n));
  std::iota(devices.begin(), devices.end(), 0);
  Communicator& communicator = world->communicator(devices);
  const bool late = rank >= n / 2;
  const milliseconds lateness(testing::rounds("LOCKSTEP_LATE_MS", 300));
  for (const Kind kind : {Kind::kPermute, Kind::kAllGather, Kind::kBroadcast, Kind::kAllToAll,
                          Kind::kReduceScatter, Kind::kAllReduce}) {
    const std::int64_t count = 32 * static_cast<std::int64_t>(kMiB);
    Collective what{.kind = kind, .dtype = DType::kU8, .count = count};
    if (kind == Kind::kPermute)
      for (int i = 0; i < n / 2; ++i) what.pairs.emplace_back(i, n / 2 + i);
    const Call call = make_call(what, n);
    std::vector<std::uint8_t> in(call.input_bytes, static_cast<std::uint8_t>(rank + 1)),
        out(call.output_bytes, 9);
    communicator.run(call, rank, in.data(), out.data());
    for (const milliseconds by : {milliseconds(50), lateness}) {
      std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
      const long before = memory("VmRSS:");
      if (late) std::this_thread::sleep_for(by);
      const long at = memory("VmRSS:");
      communicator.run(call, rank, in.data(), out.data());
      const long peak = memory("VmHWM:");
      EXPECT_LE(at - before, kMost + 1) << call.text;
      EXPECT_LE(peak - before, kMost + kOther) << call.text;
      testing::say(fmt::format("{}: {} ms late, {} MiB before, {} at, peak {}", call.text, by.count(), before,
                               at, peak));
    }
    if (!late || kind != Kind::kPermute) continue;
    EXPECT_EQ(std::ranges::count(out, static_cast<std::uint8_t>(rank - n / 2 + 1)), std::ssize(out));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They take memory of their own.
TEST(LateReceivers, StayWithinTheLimit_InEachKindOfCollective) {
  for (const auto& result :
       testing::run_processes({.count = 2, .child = "comes_late", .deadline = std::chrono::seconds(120)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}
#endif

/// The one that waits to send hears of the death of the late one.
LOCKSTEP_CHILD(dies_before_it_comes) {
  FolderKeyValueStore store(shared_folder());
  const auto world = World::create(child_options(store, 1, /*hosts=*/2));
  Communicator& communicator = world->communicator({0, 1});
  const auto permute = [&](std::int64_t count) {
    const Call call =
        make_call({.kind = Kind::kPermute, .dtype = DType::kU8, .count = count, .pairs = {{0, 1}}}, 2);
    std::vector<std::uint8_t> in(call.input_bytes, 1), out(call.output_bytes);
    communicator.run(call, testing::child_index(), in.data(), out.data());
  };
  permute(1 << 20);
  if (testing::child_index() == 1) {
    std::this_thread::sleep_for(milliseconds(300));
    raise(SIGKILL);
  }
  EXPECT_THAT(message_of<PeerFailure>([&] { permute(1 << 28); }), HasSubstr("process 1 of 2"));
}

TEST(LateReceivers, ThatDie_EndTheWaitOfTheSender) {
  const auto results = testing::run_processes({.count = 2, .child = "dies_before_it_comes"});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
}

}  // namespace
}  // namespace lockstep::collectives
