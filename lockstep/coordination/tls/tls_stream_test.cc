// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/coordination/tls/tls.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::coordination {
namespace {

using ::testing::HasSubstr;

std::pair<FileDescriptor, FileDescriptor> sockets(int type = SOCK_STREAM) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    ADD_FAILURE() << "no socket pair";
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Two ends, and the wire between them, on which somebody passes on what comes.
struct TlsWire {
  /// `type`: of the sockets at this end.
  TlsWire(std::shared_ptr<const Tls> connects, std::shared_ptr<const Tls> accepts, int type = SOCK_STREAM)
      : ours(std::move(connects)), theirs(std::move(accepts)) {
    std::tie(here_socket, near) = sockets(type);
    std::tie(there_socket, far) = sockets();
    here = ours->connect(here_socket.get());
    there = theirs->accept(there_socket.get());
  }

  /// Passes on up to `most` bytes each way; `change` may change what goes from here to there.
  void carry(std::size_t most = 1 << 16, const std::function<void(std::string&)>& change = {}) {
    for (auto [from, to] : {std::pair(&near, &far), std::pair(&far, &near)}) {
      std::string bytes(most, '\0');
      const ssize_t got = recv(from->get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) continue;
      bytes.resize(static_cast<std::size_t>(got));
      seen += bytes;
      if (change && from == &near) change(bytes);
      for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t sent = send(to->get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
        if (sent > 0) at += static_cast<std::size_t>(sent);
        if (sent < 0 && errno != EAGAIN) return;
        char some[1 << 14];  // Who reads makes room.
        if (sent < 0) heard_between += take(to == &far ? *there : *here, some);
      }
    }
  }

  /// Reads up to `n` bytes from the end.
  template <std::size_t n>
  static std::string take(TlsStream& end, char (&some)[n]) {
    const ssize_t got = end.read(some, n);
    return std::string(some, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }

  bool shake_hands() {
    char none[1];
    for (int i = 0; i < 20 && !(here->is_open() && there->is_open()); ++i) {
      carry();
      here->read(none, 0);
      there->read(none, 0);
    }
    return here->is_open() && there->is_open();
  }

  std::shared_ptr<const Tls> ours, theirs;
  FileDescriptor here_socket, there_socket, near, far;
  std::unique_ptr<TlsStream> here, there;
  std::string seen, heard_between;
};

std::shared_ptr<const Tls> with_certificates_of(const std::string& name) {
  static const testing::TemporaryFolder& folder = *new testing::TemporaryFolder;
  static const testing::TestAuthority& authority = *new testing::TestAuthority(folder.path(), "ours");
  return Tls::load(authority.issue({.name = name}));
}

struct TlsKind {
  const char* name;
  std::function<std::shared_ptr<const Tls>()> make;
};

class EachTlsStream : public ::testing::TestWithParam<TlsKind> {
 protected:
  TlsWire wire_{GetParam().make(), GetParam().make()};
};

/// Sends pieces of all sizes, both ways at a time, over a wire that is slower than both ends and has room for
/// less than a record at one of them.
TEST_P(EachTlsStream, CarriesWhatIsWritten_AndNobodyBetweenReadsIt) {
  ASSERT_TRUE(wire_.shake_hands());
  const int room = 5'000;
  ASSERT_EQ(setsockopt(wire_.here_socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  EXPECT_EQ(wire_.here->binding(), wire_.there->binding());
  const std::string pattern = "what must not be seen on the wire";
  struct End {
    TlsStream* stream;
    std::vector<std::string> pieces;
    std::string said, heard;
    std::size_t sent = 0;
  };
  End ends[] = {{wire_.here.get(), {}, {}, {}}, {wire_.there.get(), {}, {}, {}}};
  for (End& end : ends) {
    for (const std::size_t size : {1, 40, 4096, 40, 16'384, 40, 4'000, 50, 300'000, 3, 16'385, 100'000}) {
      std::string& piece = end.pieces.emplace_back();
      while (piece.size() < size) piece += pattern + std::to_string(piece.size() + end.said.size());
      piece.resize(size);
      end.said += piece;
    }
  }
  std::string into(100'000, '\0');
  for (int round = 0; round < 100'000; ++round) {
    for (End& end : ends) {
      // The rest, in pieces.
      std::vector<iovec> left;
      std::size_t skip = end.sent;
      for (std::string& piece : end.pieces) {
        const std::size_t some = std::min(skip, piece.size());
        skip -= some;
        if (some < piece.size()) left.push_back({piece.data() + some, piece.size() - some});
      }
      if (!left.empty()) {
        const ssize_t sent = end.stream->write(left);
        if (sent < 0) {
          ASSERT_EQ(errno, EAGAIN);
        }
        end.sent += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
      }
      end.stream->send_kept();
    }
    wire_.carry(5'000);
    for (End& end : ends) {
      ssize_t got;
      while ((got = end.stream->read(into.data(), into.size())) > 0) {
        end.heard.append(into.data(), static_cast<std::size_t>(got));
      }
      ASSERT_EQ(errno, EAGAIN) << end.stream->trouble();
      EXPECT_FALSE(end.stream->may_have_more());
    }
    if (ends[0].heard.size() == ends[1].said.size() && ends[1].heard.size() == ends[0].said.size()) break;
  }
  EXPECT_TRUE(ends[0].heard == ends[1].said && ends[1].heard == ends[0].said);
  EXPECT_EQ(ends[0].sent, ends[0].said.size());
  EXPECT_EQ(wire_.heard_between, "");
  EXPECT_GT(wire_.seen.size(), ends[0].said.size() + ends[1].said.size());
  EXPECT_EQ(wire_.seen.find(pattern), std::string::npos);
}

TEST_P(EachTlsStream, AChangedRecord_IsRefusedWholeWithTheReason) {
  for (const std::size_t at : {0U, 5U, 6U, 700U, 1004U}) {
    TlsWire wire(GetParam().make(), GetParam().make());
    ASSERT_TRUE(wire.shake_hands());
    std::string said(1000, 's');
    const iovec all{said.data(), said.size()};
    ASSERT_EQ(wire.here->write({&all, 1}), 1000);
    wire.carry(1 << 16, [&](std::string& bytes) { bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x20); });
    char into[1000];
    ASSERT_EQ(wire.there->read(into, sizeof into), -1);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_THAT(wire.there->trouble(), HasSubstr("is not what the other side sent"));
    // The other side is told.
    wire.carry();
    ASSERT_EQ(wire.here->read(into, sizeof into), -1);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_THAT(wire.here->trouble(), HasSubstr("broke TLS off"));
  }
}

TEST_P(EachTlsStream, ACutRecord_GivesNothingButTheEnd) {
  ASSERT_TRUE(wire_.shake_hands());
  std::string said(1000, 's');
  const iovec all{said.data(), said.size()};
  ASSERT_EQ(wire_.here->write({&all, 1}), 1000);
  wire_.carry(600);
  wire_.far = FileDescriptor();
  char into[1000];
  EXPECT_EQ(wire_.there->read(into, sizeof into), 0);
}

constexpr std::size_t kRecord = 16 << 10;

TEST_P(EachTlsStream, SeveralRecords_AreSentByOneCall) {
  // Each call of the system sends a packet.
  TlsWire wire(GetParam().make(), GetParam().make(), SOCK_SEQPACKET);
  ASSERT_TRUE(wire.shake_hands());
  std::string said(3 * kRecord, 's'), packet(8 * kRecord, '\0');
  const iovec all{said.data(), said.size()};
  ASSERT_EQ(wire.here->write({&all, 1}), static_cast<ssize_t>(said.size()));
  EXPECT_GT(recv(wire.near.get(), packet.data(), packet.size(), 0), static_cast<ssize_t>(said.size()));
  EXPECT_EQ(recv(wire.near.get(), packet.data(), packet.size(), 0), -1) << "another packet";
}

TEST_P(EachTlsStream, SeveralRecords_AreReadByOneCall_AndGivenOneByOne_AlsoAfterTheEnd) {
  ASSERT_TRUE(wire_.shake_hands());
  std::string said(4 * kRecord, 's'), into(4 * kRecord, '\0');
  const iovec all{said.data(), said.size()};
  ASSERT_EQ(wire_.here->write({&all, 1}), static_cast<ssize_t>(said.size()));
  wire_.carry(8 * kRecord);
  wire_.far = FileDescriptor();
  for (std::size_t record = 0; record < 4; ++record) {
    EXPECT_EQ(wire_.there->read(into.data(), into.size()), static_cast<ssize_t>(kRecord));
    EXPECT_EQ(wire_.there->may_have_more(), record < 3);
    char rest;
    EXPECT_EQ(recv(wire_.there_socket.get(), &rest, 1, MSG_PEEK), 0) << "only the end is left in the socket";
  }
  EXPECT_EQ(wire_.there->read(into.data(), into.size()), 0);
}

TEST_P(EachTlsStream, RecordsOfWhichSomeLeft_AreNotCounted_AndFailIfTheOtherSideIsGone) {
  ASSERT_TRUE(wire_.shake_hands());
  const int room = 5'000;
  ASSERT_EQ(setsockopt(wire_.here_socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  std::string said(2 * kRecord, 's');
  const iovec all{said.data(), said.size()};
  ASSERT_EQ(wire_.here->write({&all, 1}), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(wire_.here->has_kept());
  wire_.near = FileDescriptor();
  ASSERT_EQ(wire_.here->write({&all, 1}), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_FALSE(wire_.here->has_kept());
}

INSTANTIATE_TEST_SUITE_P(
    Of, EachTlsStream,
    ::testing::Values(TlsKind{"Key", [] { return Tls::from_secret("a secret of the job"); }},
                      TlsKind{"KeyThatIsReplaced", [] { return Tls::from_secret("a secret of the job", 3); }},
                      TlsKind{"Certificates", [] { return with_certificates_of("node"); }}),
    [](const auto& info) { return info.param.name; });

TEST(TlsStreams, DifferentSecretsOrASecretAndCertificates_FailTheHandshake) {
  const auto key = Tls::from_secret("a secret of the job"), other = Tls::from_secret("another secret"),
             certificates = with_certificates_of("node");
  struct Case {
    std::shared_ptr<const Tls> here, there;
    const char *here_says, *there_says;
  };
  for (const Case& each :
       {Case{key, other, "does not know this job's secret", "does not know this job's secret"},
        Case{key, certificates, "has a certificate, but this process has none",
             "does not accept this process's certificate"},
        Case{certificates, key, "handshake failure", "does not speak TLS 1.3"}}) {
    TlsWire wire(each.here, each.there);
    EXPECT_FALSE(wire.shake_hands());
    EXPECT_THAT(wire.here->trouble(), HasSubstr(each.here_says));
    EXPECT_THAT(wire.there->trouble(), HasSubstr(each.there_says));
  }
}

}  // namespace
}  // namespace lockstep::coordination
