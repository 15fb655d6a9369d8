// SPDX-License-Identifier: Apache-2.0
// Tests of what every network between hosts does (network.h), and what strangers cannot do to its sockets.
#include "lockstep/collectives/network.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/coordination/tls/tls.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

struct NetworkKind {
  const char* name;
  const char* network;
  int connections;
  enum { kPlain, kKey, kCertificates } tls = kPlain;
};

std::ostream& operator<<(std::ostream& out, const NetworkKind& kind) { return out << kind.name; }

/// The TLS of both ends of the connections; null: plain text.
std::shared_ptr<const coordination::Tls> tls_of(const NetworkKind& kind, const std::string& secret) {
  if (kind.tls == NetworkKind::kPlain) return nullptr;
  if (kind.tls == NetworkKind::kKey) return coordination::Tls::from_secret(secret);
  static const testing::TemporaryFolder& folder = *new testing::TemporaryFolder;
  static const testing::TestAuthority& authority = *new testing::TestAuthority(folder.path(), "ours");
  return coordination::Tls::load(authority.issue({}));
}

/// Mailboxes that all make progress, as those of several processes do.
class Mailboxes {
 public:
  explicit Mailboxes(const NetworkKind& kind, int count = 2, std::string secret = "s") {
    for (int i = 0; i < count; ++i) {
      networks_.push_back(Network::open({.interface = "lo",
                                         .network = kind.network,
                                         .connections = kind.connections,
                                         .secret = secret,
                                         .tls = tls_of(kind, secret)}));
      all_.push_back(networks_.back()->open_mailbox());
    }
  }

  Mailbox& operator[](int i) { return *all_[static_cast<std::size_t>(i)]; }
  void destroy(int i) { all_[static_cast<std::size_t>(i)].reset(); }

  /// Whether it became true within a time that is long.
  bool until(const std::function<bool()>& done, std::chrono::milliseconds limit = testing::kAtOnce) {
    const auto end = steady_clock::now() + limit;
    while (!done()) {
      if (steady_clock::now() > end) return false;
      bool any = false;
      for (const auto& mailbox : all_)
        if (mailbox) any |= mailbox->progress();
      if (!any) std::this_thread::yield();
    }
    return true;
  }

  /// Two that know each other: the endpoints of 1 at 0, and of 0 at 1.
  std::pair<int, int> connect() {
    const int there = (*this)[0].connect((*this)[1].address());
    char in = 0, out = 'x';
    Transfer receives = (*this)[1].receive(-1, 1, &in, 1), sends = (*this)[0].send(there, 1, &out, 1);
    EXPECT_TRUE(until([&] { return (*this)[1].finished(receives) && (*this)[0].finished(sends); }));
    EXPECT_EQ(in, 'x');
    return {there, (*this)[1].connect((*this)[0].address())};
  }

 private:
  std::vector<std::shared_ptr<Network>> networks_;
  std::vector<std::unique_ptr<Mailbox>> all_;
};

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  std::minstd_rand random(seed + 1);
  for (std::size_t i = 0; i < bytes; i += 4) {
    const auto word = static_cast<std::uint32_t>(random());
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(4, bytes - i));
  }
  return data;
}

class EachNetwork : public ::testing::TestWithParam<NetworkKind> {};

/// A connection that cannot be made is an error for its caller, and nothing for the others.
TEST_P(EachNetwork, AnInvalidAddress_Throws_AndLaterConnectionsWork) {
  Mailboxes mailbox(GetParam());
  EXPECT_THROW(mailbox[0].connect(std::string(200, '\0')), Error);
  const int endpoint = mailbox[0].connect(mailbox[1].address());
  EXPECT_EQ(mailbox[0].broken(endpoint), nullptr);
  EXPECT_NE(mailbox[0].broken(endpoint - 1), nullptr);
  char heard[4] = "";
  Transfer receives = mailbox[1].receive(-1, 7, heard, sizeof heard),
           sends = mailbox[0].send(endpoint, 7, "yes", sizeof heard);
  EXPECT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives) && mailbox[0].finished(sends); }));
  EXPECT_STREQ(heard, "yes");
  EXPECT_EQ(receives.bytes, 4U);
}

/// Messages of all sizes, both ways at a time, awaited before and after they arrive, in any order of tags.
TEST_P(EachNetwork, MatchesMessagesByTag_InOrderForEachTag) {
  Mailboxes mailbox(GetParam());
  const auto [to_1, to_0] = mailbox.connect();
  const int endpoints[] = {to_1, to_0};
  const std::size_t sizes[] = {0, 1, 39, 40, 41, 4'096, 65'535, 131'072, 131'073, 700'001, 3'000'000};
  std::minstd_rand random(5);
  for (int round = 0; round < 6; ++round) {
    struct Message {
      int from;
      std::uint64_t tag;
      std::vector<std::byte> out, in;
      Transfer sends, receives;
    };
    std::deque<Message> messages;
    for (int i = 0; i < 40; ++i) {
      const std::size_t bytes = sizes[random() % std::size(sizes)];
      messages.push_back({static_cast<int>(random() % 2),
                          random() % 5,
                          pattern(bytes, static_cast<unsigned>(i)),
                          std::vector<std::byte>(bytes),
                          {},
                          {}});
    }
    const auto ask = [&](Message& each) {
      each.receives =
          mailbox[1 - each.from].receive(endpoints[1 - each.from], each.tag, each.in.data(), each.in.size());
    };
    const auto send = [&](Message& each) {
      each.sends = mailbox[each.from].send(endpoints[each.from], each.tag, each.out.data(), each.out.size());
    };
    // Even rounds ask first, odd ones when much has come; the order is kept for each tag only.
    std::vector<Message*> by_tag;
    for (Message& each : messages) by_tag.push_back(&each);
    std::ranges::stable_sort(by_tag, {}, [](const Message* each) { return each->tag; });
    if (round % 2 == 0)
      for (Message* each : by_tag) ask(*each);
    for (Message& each : messages) send(each);
    if (round % 2 == 1) {
      mailbox.until([] { return false; }, std::chrono::milliseconds(round * 10));
      for (Message* each : by_tag) ask(*each);
    }
    ASSERT_TRUE(mailbox.until([&] {
      return std::ranges::all_of(messages, [&](Message& each) {
        return mailbox[each.from].finished(each.sends) && mailbox[1 - each.from].finished(each.receives);
      });
    }));
    for (std::size_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(messages[i].receives.error, nullptr);
      EXPECT_EQ(messages[i].receives.bytes, messages[i].out.size());
      ASSERT_TRUE(messages[i].in == messages[i].out) << "round " << round << ", message " << i;
    }
  }
}

TEST_P(EachNetwork, AMessageThatIsTooLong_IsAnError_AndTheNextArrives) {
  Mailboxes mailbox(GetParam());
  const int endpoint = mailbox.connect().first;
  for (const std::size_t bytes : {100U, 1'000'000U}) {
    const std::vector<std::byte> out = pattern(bytes, 3);
    std::vector<std::byte> room(bytes), next(bytes);
    Transfer first = mailbox[1].receive(-1, 7, room.data(), bytes / 2),
             second = mailbox[1].receive(-1, 7, next.data(), bytes),
             sends = mailbox[0].send(endpoint, 7, out.data(), bytes),
             again = mailbox[0].send(endpoint, 7, out.data(), bytes);
    ASSERT_TRUE(mailbox.until([&] {
      return mailbox[1].finished(first) && mailbox[1].finished(second) && mailbox[0].finished(sends) &&
             mailbox[0].finished(again);
    }));
    EXPECT_NE(first.error, nullptr);
    EXPECT_TRUE(std::all_of(room.begin() + static_cast<std::ptrdiff_t>(bytes / 2), room.end(),
                            [](std::byte byte) { return byte == std::byte(0); }));
    EXPECT_EQ(second.error, nullptr);
    EXPECT_TRUE(next == out);
  }
}

TEST_P(EachNetwork, AMessageShorterThanTheMemoryForIt_IsReceived) {
  Mailboxes mailbox(GetParam());
  const int endpoint = mailbox.connect().first;
  char heard[100] = "";
  Transfer receives = mailbox[1].receive(-1, 7, heard, sizeof heard),
           sends = mailbox[0].send(endpoint, 7, "yes", 4);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives) && mailbox[0].finished(sends); }));
  EXPECT_EQ(receives.bytes, 4U);
  EXPECT_STREQ(heard, "yes");
}

TEST_P(EachNetwork, ACancelledReceive_TakesNothing) {
  Mailboxes mailbox(GetParam());
  const int endpoint = mailbox.connect().first;
  char first[4] = "", second[4] = "";
  Transfer cancelled = mailbox[1].receive(-1, 7, first, sizeof first);
  mailbox[1].cancel(cancelled);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[1].finished(cancelled); }));
  EXPECT_NE(cancelled.error, nullptr);
  Transfer receives = mailbox[1].receive(-1, 7, second, sizeof second),
           sends = mailbox[0].send(endpoint, 7, "yes", 4);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives) && mailbox[0].finished(sends); }));
  EXPECT_STREQ(first, "");
  EXPECT_STREQ(second, "yes");
}

TEST_P(EachNetwork, AFlush_EndsWhenAllIsSent) {
  Mailboxes mailbox(GetParam());
  const int endpoint = mailbox.connect().first;
  const std::vector<std::byte> out = pattern(8'000'000, 1);
  std::vector<std::byte> in(out.size());
  Transfer receives = mailbox[1].receive(-1, 7, in.data(), in.size()),
           sends = mailbox[0].send(endpoint, 7, out.data(), out.size()), left = mailbox[0].flush(endpoint);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(left); }));
  EXPECT_TRUE(mailbox[0].finished(sends));
  ASSERT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives); }));
  EXPECT_TRUE(in == out);
}

/// The end that leaves has sent what was queued; the one that stays is told, and can go on with others.
TEST_P(EachNetwork, APeerThatEnds_IsReceivedToTheEnd_ThenBroken) {
  Mailboxes mailbox(GetParam(), 3);
  const auto [to_1, to_0] = mailbox.connect();
  const int third = mailbox[0].connect(mailbox[2].address());
  const std::vector<std::byte> last = pattern(40'000, 1);
  std::vector<std::byte> in(last.size());
  Transfer sends = mailbox[1].send(to_0, 9, last.data(), last.size());
  mailbox.until([&] { return mailbox[1].finished(sends); });
  mailbox.destroy(1);
  Transfer receives = mailbox[0].receive(-1, 9, in.data(), in.size());
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(receives); }));
  EXPECT_EQ(receives.error, nullptr);
  EXPECT_TRUE(in == last);

  Transfer lost;
  ASSERT_TRUE(mailbox.until([&, to_1 = to_1] {
    if (mailbox[0].broken(to_1) != nullptr) return true;
    if (mailbox[0].finished(lost)) lost = mailbox[0].send(to_1, 9, last.data(), last.size());
    return false;
  }));
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].finished(lost); }));
  EXPECT_NE(mailbox[0].send(to_1, 9, last.data(), last.size()).error, nullptr);

  char heard[4] = "";
  Transfer hears = mailbox[2].receive(-1, 7, heard, sizeof heard), says = mailbox[0].send(third, 7, "yes", 4);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[2].finished(hears) && mailbox[0].finished(says); }));
  EXPECT_STREQ(heard, "yes");
}

TEST_P(EachNetwork, Disconnecting_EndsWhatIsUnderWay) {
  Mailboxes mailbox(GetParam());
  const auto [to_1, to_0] = mailbox.connect();
  const std::vector<std::byte> out = pattern(64'000'000, 1);
  std::vector<std::byte> in(out.size());
  Transfer receives = mailbox[1].receive(-1, 7, in.data(), in.size()),
           sends = mailbox[0].send(to_1, 7, out.data(), out.size());
  mailbox.until([] { return false; }, std::chrono::milliseconds(1));
  mailbox[1].cancel(receives);
  mailbox[1].disconnect(to_0);
  mailbox[0].disconnect(to_1);
  EXPECT_TRUE(mailbox.until([&] { return mailbox[0].finished(sends); }));
  EXPECT_NE(mailbox[0].broken(to_1), nullptr);
  // UCX never ends what a sender that is gone had begun.
  if (std::string_view(GetParam().network) == "ucx") return;
  EXPECT_TRUE(mailbox.until([&] { return mailbox[1].finished(receives); }));
  EXPECT_NE(receives.error, nullptr);
}

TEST_P(EachNetwork, SleepsUntilAMessageArrives_OrIsWoken) {
  Mailboxes mailbox(GetParam());
  const int endpoint = mailbox.connect().first;
  char heard[4] = "";
  Transfer receives = mailbox[1].receive(-1, 7, heard, sizeof heard);
  const auto sleeps = [&](const std::function<bool()>& done) {
    const auto end = steady_clock::now() + testing::kAtOnce;
    while (!done() && steady_clock::now() < end) {
      while (mailbox[1].progress()) {
      }
      if (!done()) mailbox[1].sleep(std::chrono::milliseconds(60'000));
    }
    return done();
  };
  {
    std::jthread sends([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      Transfer transfer = mailbox[0].send(endpoint, 7, "yes", 4);
      while (!mailbox[0].finished(transfer)) mailbox[0].progress();
    });
    EXPECT_TRUE(sleeps([&] { return mailbox[1].finished(receives); }));
  }
  EXPECT_STREQ(heard, "yes");
  std::atomic<bool> woken = false;
  std::jthread wakes([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    woken = true;
    mailbox[1].wake();
  });
  EXPECT_TRUE(sleeps([&] { return woken.load(); }));
}

INSTANTIATE_TEST_SUITE_P(Of, EachNetwork,
                         ::testing::Values(NetworkKind{"Tcp", "tcp", 1}, NetworkKind{"TcpBy4", "tcp", 4},
                                           NetworkKind{"Tls", "tcp", 1, NetworkKind::kKey},
                                           NetworkKind{"TlsBy4", "tcp", 4, NetworkKind::kCertificates},
                                           NetworkKind{"Ucx", "ucx", 1}),
                         [](const auto& info) { return info.param.name; });

const NetworkKind kTcp{"Tcp", "tcp", 1}, kTls{"Tls", "tcp", 1, NetworkKind::kKey};

class EachTcp : public ::testing::TestWithParam<NetworkKind> {};
INSTANTIATE_TEST_SUITE_P(Of, EachTcp, ::testing::Values(kTcp, kTls),
                         [](const auto& info) { return info.param.name; });

TEST(Network, UnknownOrDifferentNetworks_AreErrors) {
  EXPECT_THROW(Network::open({.interface = "lo", .network = "pigeons"}), Error);
  try {
    Mailboxes tcp(kTcp), ucx(NetworkKind{"Ucx", "ucx", 1});
    EXPECT_THROW(ucx[0].connect(tcp[0].address()), Error);
    tcp[0].connect(ucx[0].address());
    ADD_FAILURE() << "it connected";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("LOCKSTEP_NETWORK"));
  }
}

TEST(Network, BetweenAnEncryptedAndAPlainSide_FailsAndNamesTheVariable) {
  Mailboxes plain(kTcp, 1), encrypted(kTls, 1);
  for (const bool encrypts : {false, true}) {
    try {
      encrypts ? encrypted[0].connect(plain[0].address()) : plain[0].connect(encrypted[0].address());
      ADD_FAILURE() << "it connected";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(encrypts ? "this process encrypts" : "this process does not encrypt"));
      EXPECT_THAT(error.what(), HasSubstr("LOCKSTEP_DATA_TLS"));
    }
  }
}

/// UCX, if it is asked for; a host that has RDMA would use it otherwise.
TEST(Network, WithEncryption_IsTcpAndNeverUcx) {
  try {
    Network::open({.interface = "lo", .network = "ucx", .tls = tls_of(kTls, "s")});
    ADD_FAILURE() << "it opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("which UCX cannot do: set it to tcp"));
  }
  setenv("UCX_TLS", "tcp", 1);
  EXPECT_THAT(Network::open({.interface = "lo", .tls = tls_of(kTls, "s")})->description(),
              HasSubstr("TCP from 127.0.0.1:0 with TLS"));
  unsetenv("UCX_TLS");
}

TEST_P(EachTcp, ASideWithoutTheSecret_IsRefused_AndSaysSo) {
  Mailboxes ours(GetParam(), 1), theirs(GetParam(), 1, "another");
  const int endpoint = theirs[0].connect(ours[0].address());
  char never[4];
  Transfer receives = ours[0].receive(-1, 7, never, sizeof never),
           sends = theirs[0].send(endpoint, 7, "no!", 4);
  const auto end = steady_clock::now() + testing::kAtOnce;
  while (theirs[0].broken(endpoint) == nullptr && steady_clock::now() < end) {
    ours[0].progress();
    theirs[0].progress();
  }
  ASSERT_NE(theirs[0].broken(endpoint), nullptr);
  EXPECT_FALSE(ours[0].finished(receives));
  if (GetParam().tls != NetworkKind::kPlain) {
    EXPECT_THAT(theirs[0].broken(endpoint), HasSubstr("does not know this job's secret"));
  }
  EXPECT_TRUE(theirs[0].finished(sends));
  EXPECT_NE(sends.error, nullptr);
  ours[0].cancel(receives);
}

/// A socket of a stranger to the mailbox.
FileDescriptor stranger(const std::string& address) {
  const auto to = SocketAddress::parse(address.substr(address.rfind(' ') + 1));
  FileDescriptor fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), to->get(), to->size), 0);
  return fd;
}

TEST_P(EachTcp, SilentStrangers_DoNotDelayConnectionsForLong) {
  Mailboxes mailbox(GetParam());
  std::deque<FileDescriptor> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger(mailbox[1].address()));
  mailbox.connect();
}

TEST_P(EachTcp, RandomBytesFromStrangers_DisturbNoConnection) {
  Mailboxes mailbox(GetParam());
  std::minstd_rand random(7);
  std::deque<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(stranger(mailbox[1].address()));
    std::vector<std::byte> noise = pattern(random() % 2'000, static_cast<unsigned>(i));
    if (noise.empty()) continue;
    EXPECT_GT(::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
    mailbox.until([] { return false; }, std::chrono::milliseconds(1));
  }
  mailbox.connect();
}

/// The program that listens at the address is not a mailbox.
TEST_P(EachTcp, AnAddressWhereAnotherProgramListens_BreaksTheConnection) {
  FileDescriptor other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  Mailboxes mailbox(GetParam());
  const std::string prefix = mailbox[1].address().substr(0, mailbox[1].address().rfind(' ') + 1),
                    address = prefix + "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  const int refused = mailbox[0].connect(address);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].broken(refused) != nullptr; }));
  EXPECT_THAT(mailbox[0].broken(refused), HasSubstr("refused"));

  ASSERT_EQ(listen(other.get(), 5), 0);
  const int endpoint = mailbox[0].connect(address);
  const FileDescriptor accepted(accept(other.get(), nullptr, nullptr));
  const std::string text(100, 'x');
  EXPECT_GT(send(accepted.get(), text.data(), text.size(), MSG_NOSIGNAL), 0);
  ASSERT_TRUE(mailbox.until([&] { return mailbox[0].broken(endpoint) != nullptr; }));
  EXPECT_THAT(mailbox[0].broken(endpoint),
              HasSubstr(GetParam().tls == NetworkKind::kPlain ? "not a process of Lockstep"
                                                              : "does not speak TLS 1.3"));
}

}  // namespace
}  // namespace lockstep::collectives
