// SPDX-License-Identifier: Apache-2.0
// Connections between hosts in a job with certificates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "lockstep/collectives/connection.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

using coordination::Tls;
using coordination::TlsFiles;
using coordination::TlsSession;
using ::testing::HasSubstr;
using Heard = Connection::Heard;
using testing::TestAuthority;

std::pair<FileDescriptor, FileDescriptor> stream() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    ADD_FAILURE() << "no socket pair";
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Reads the bytes that have arrived; nullopt if the other side has ended the connection.
std::optional<std::string> read_some(const FileDescriptor& from, std::size_t most = 1 << 16) {
  std::string bytes(most, '\0');
  const ssize_t got = recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return "";
  if (got <= 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

void write_all(const FileDescriptor& to, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(to.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0) {
      EXPECT_NE(errno, EAGAIN) << "it is not read as fast as it is written";
      return;
    }
    at += static_cast<std::size_t>(sent);
  }
}

struct Certified {
  const testing::TemporaryFolder folder;
  const TestAuthority ours{folder.path(), "ours"}, foreign{folder.path(), "foreign"};
  const TlsFiles a = ours.issue({.name = "a"}), b = ours.issue({.name = "b", .usage = "serverAuth"});
};

const Certified& certified() {
  static const Certified& all = *new Certified;
  return all;
}

std::shared_ptr<const Tls> load(const TlsFiles& files) { return files.given() ? Tls::load(files) : nullptr; }

/// Process 3 calls process 5 over a wire of two stretches, which somebody in between joins.
struct Wire {
  explicit Wire(const TlsFiles& callers = certified().a, const TlsFiles& called = certified().b,
                const std::string& callers_key = "key") {
    auto [a, callers_end] = stream();
    auto [b, called_end] = stream();
    near = std::move(callers_end);
    far = std::move(called_end);
    caller = tcp_connection(std::move(a), {callers_key, 3, 5, load(callers)});
    called_one = tcp_connection(std::move(b), {"key", 5, -1, load(called)});
  }

  /// The results of both ends' `hear` in this round.
  struct Round {
    Heard here, there;
    Message message;  ///< What the called one has heard last.
  };

  /// Carries what has come, at most `most` bytes each way, and lets both hear.
  Round go(std::size_t most = 8 << 10) {
    const std::string forth = read_some(near, most).value_or(""), back = read_some(far, most).value_or("");
    seen += forth + back;
    write_all(far, forth);
    write_all(near, back);
    Round round;
    FileDescriptor none;
    Message ignored;
    round.there = called_one->hear(round.message, none);
    round.here = caller->hear(ignored, none);
    caller->send_kept();
    called_one->send_kept();
    return round;
  }

  /// Until somebody hears something, or nothing more happens.
  Round go_on(int rounds = 50, std::size_t most = 8 << 10) {
    Round round{Heard::kNothing, Heard::kNothing, {}};
    while (rounds-- > 0 && round.here == Heard::kNothing && round.there == Heard::kNothing) round = go(most);
    return round;
  }

  FileDescriptor near, far;
  std::shared_ptr<Connection> caller, called_one;
  std::string seen;
};

Message saying(const std::string& text) { return {{MessageType::kAsk, 3, 0, {}}, text}; }

TEST(TlsConnection, CarriesMessagesThatNobodyBetweenCanRead) {
  Wire wire;
  constexpr int kMessages = 30;
  const auto text = [](int i) {
    return "what is secret " + std::string(i % 2 == 0 ? 0 : kMaxText - 100, 's');
  };
  for (int i = 0; i < kMessages; ++i) wire.caller->send(saying(text(i)));
  int heard = 0;
  for (int round = 0; round < 10'000 && heard < kMessages; ++round) {
    const auto went = wire.go();
    ASSERT_EQ(went.here, Heard::kNothing);
    if (went.there != Heard::kMessage) continue;
    ASSERT_TRUE(went.message.text == text(heard));
    ++heard;
  }
  EXPECT_EQ(heard, kMessages);
  EXPECT_TRUE(wire.caller->is_proved() && wire.called_one->is_proved());
  EXPECT_EQ(wire.called_one->process, 3);
  EXPECT_EQ(wire.seen.find("secret"), std::string::npos);
  EXPECT_EQ(wire.seen.find("ssssssss"), std::string::npos);
}

TEST(TlsConnection, AHandshakeByteByByte_BlocksNobody) {
  Wire wire;
  wire.caller->send(saying("at last"));
  for (int round = 0; round < 20'000; ++round) {
    const auto went = wire.go(1);
    ASSERT_EQ(went.here, Heard::kNothing);
    if (went.there == Heard::kNothing) continue;
    ASSERT_EQ(went.there, Heard::kMessage);
    EXPECT_EQ(went.message.text, "at last");
    EXPECT_GT(round, 500) << "nothing was said of certificates";
    return;
  }
  ADD_FAILURE() << "nothing was heard";
}

TEST(TlsConnection, EndsWhenTheOtherSideCloses_WithoutCloseNotify) {
  // Before, in the middle of, and after the handshake.
  for (int rounds = 0; rounds < 8; ++rounds) {
    Wire wire;
    for (int i = 0; i < rounds; ++i) wire.go();
    EXPECT_EQ(wire.called_one->is_proved(), rounds >= 5) << rounds;
    wire.near = FileDescriptor();
    wire.far = FileDescriptor();
    Message message;
    FileDescriptor none;
    EXPECT_EQ(wire.caller->hear(message, none), Heard::kEnd) << rounds;
    EXPECT_EQ(wire.called_one->hear(message, none), Heard::kEnd) << rounds;
    EXPECT_EQ(wire.caller->trouble(), "");
  }
}

TEST(TlsConnection, NeedsOneAuthorityAndOneSecret) {
  const TlsFiles& good = certified().a;
  const TlsFiles strange = certified().foreign.issue({});
  struct Case {
    TlsFiles callers, called;
    std::string key, why;
  };
  for (const Case& each : std::vector<Case>{
           {good, strange, "key", "is not accepted by the authority in '" + good.authority},
           {strange, good, "key", "is not accepted by the authority in '" + strange.authority},
           {good, good, "another key", ""},
           {good, {}, "key", "does not speak TLS"},
       }) {
    Wire wire(each.callers, each.called, each.key);
    wire.caller->send(saying("to a friend"));
    Wire::Round round = wire.go_on();
    EXPECT_TRUE(round.here == Heard::kEnd || round.there == Heard::kEnd);
    EXPECT_FALSE(wire.caller->is_proved() || wire.called_one->is_proved());
    EXPECT_THAT(wire.caller->trouble(), HasSubstr(each.why));
    EXPECT_EQ(wire.seen.find("to a friend"), std::string::npos);
  }
}

/// Somebody between both who has a certificate of the authority, as another process's, but not the secret: he
/// speaks TLS with each, and hands on what they say.
struct Between {
  Between()
      : tls(Tls::load(certified().ours.issue({.name = "between"}))),
        near(tls->accept()),
        far(tls->connect()) {}

  void go(Wire& wire) {
    for (int round = 0; round < 50; ++round) {
      near->receive(read_some(wire.near).value_or(""));
      far->receive(read_some(wire.far).value_or(""));
      const std::string forth = near->read(), back = far->read();
      read += forth + back;
      far->write(forth);
      near->write(back);
      write_all(wire.near, near->to_send());
      write_all(wire.far, far->to_send());
      Message message;
      FileDescriptor none;
      there = wire.called_one->hear(message, none);
      here = wire.caller->hear(message, none);
      if (here != Heard::kNothing || there != Heard::kNothing) return;
    }
  }

  std::shared_ptr<const Tls> tls;
  std::unique_ptr<TlsSession> near, far;
  std::string read;
  Heard here = Heard::kNothing, there = Heard::kNothing;
};

TEST(TlsConnection, RefusesAManInTheMiddle_WithACertificateOfTheAuthority) {
  Wire wire;
  wire.caller->send(saying("for process 5 alone"));
  Between between;
  between.go(wire);
  EXPECT_EQ(between.there, Heard::kEnd);
  EXPECT_FALSE(wire.caller->is_proved() || wire.called_one->is_proved());
  EXPECT_THAT(between.read, HasSubstr("3 5 ")) << "he has not come as far as the greeting";
  EXPECT_THAT(between.read, Not(HasSubstr("for process 5 alone")));
}

TEST(TlsConnection, SurvivesRandomBytes) {
  std::mt19937 random(11);
  const auto tls = Tls::load(certified().a);
  for (int round = 0; round < 300; ++round) {
    auto [there, stranger] = stream();
    const bool calls = round % 2 == 0;
    const auto connection = tcp_connection(std::move(there), {"key", 5, calls ? 3 : -1, tls});
    std::string bytes(random() % 600, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (round % 3 == 0) bytes = "\x16\x03\x01" + bytes;  // As a handshake begins.
    write_all(stranger, bytes);
    Message message;
    FileDescriptor none;
    const Heard heard = connection->hear(message, none);
    EXPECT_TRUE(heard == Heard::kNothing || heard == Heard::kEnd);
    EXPECT_FALSE(connection->is_proved());
  }
}

}  // namespace
}  // namespace lockstep::collectives
