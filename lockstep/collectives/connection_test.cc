// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/base/hex.h"
#include "lockstep/collectives/test_descriptors.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << "no socket pair";
    here = unix_connection(FileDescriptor(ends[0]), 1);
    there = unix_connection(FileDescriptor(ends[1]), 0);
  }
  std::shared_ptr<Connection> here, there;
};

Message numbered(int i, MessageType type = MessageType::kAsk) {
  return {{type, i, 0, {}}, std::to_string(i)};
}

TEST(Connection, WithoutRoomAtThePeer_KeepsMessagesAndDescriptorsForLater) {
  constexpr int kMessages = 1000;
  Pair pair;
  {
    const FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(memory.get(), 12345), 0);
    for (int i = 0; i < kMessages; ++i) pair.here->send(numbered(i), i == kMessages - 1 ? memory.get() : -1);
  }
  ASSERT_TRUE(pair.here->has_kept()) << "there was room for " << kMessages;
  for (int i = 0; i < kMessages; ++i) {
    pair.here->send_kept();
    Message message;
    FileDescriptor fd;
    ASSERT_EQ(pair.there->hear(message, fd), Connection::Heard::kMessage);
    ASSERT_EQ(message.header.from, i);
    ASSERT_EQ(message.text, std::to_string(i));
    if (i < kMessages - 1) continue;
    ASSERT_TRUE(fd);
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_END), 12345);
  }
  EXPECT_FALSE(pair.here->has_kept());
}

TEST(Connection, WhenThePeerEndsWithUnreadMessages_ItsMessagesAreStillRead) {
  Pair pair;
  pair.here->send(numbered(0));  // The other side never reads it.
  for (int i = 1; i < 4; ++i) pair.there->send(numbered(i));
  pair.there.reset();
  Message message;
  FileDescriptor fd;
  for (int i = 1; i < 4; ++i) {
    ASSERT_EQ(pair.here->hear(message, fd), Connection::Heard::kMessage) << i;
    EXPECT_EQ(message.header.from, i);
  }
  EXPECT_EQ(pair.here->hear(message, fd), Connection::Heard::kEnd);
}

TEST(Connection, AMissingDescriptor_IsReportedWithItsMessage) {
  Pair pair;
  pair.here->send(numbered(7, MessageType::kSegment), STDERR_FILENO);
  Message message;
  FileDescriptor fd;
  {
    const NoMoreDescriptors none;
    EXPECT_EQ(pair.there->hear(message, fd), Connection::Heard::kMessageWithoutItsDescriptor);
  }
  EXPECT_EQ(message.text, "7");
  EXPECT_FALSE(fd);
}

/// The descriptors of this process.
std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(Connection, TwoDescriptorsInOneMessage_AreClosed) {
  Pair pair;
  const auto before = open_descriptors();
  {
    Message message = numbered(7, MessageType::kSegment);
    iovec part{&message.header, sizeof message.header};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr out{};
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    out.msg_control = control;
    out.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&out);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    const int two[] = {STDERR_FILENO, STDOUT_FILENO};
    std::memcpy(CMSG_DATA(header), two, sizeof two);
    ASSERT_EQ(sendmsg(pair.here->descriptor(), &out, MSG_NOSIGNAL), static_cast<ssize_t>(part.iov_len));
    FileDescriptor fd;
    EXPECT_EQ(pair.there->hear(message, fd), Connection::Heard::kMessage);
    EXPECT_TRUE(fd);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Connection, EndsWhenItsProcessClosesIt_EvenIfAForkedChildLives) {
  Pair pair;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  pair.here.reset();
  Message message;
  FileDescriptor fd;
  pollfd ended{pair.there->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
  EXPECT_EQ(pair.there->hear(message, fd), Connection::Heard::kEnd);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

using Heard = Connection::Heard;

std::pair<FileDescriptor, FileDescriptor> stream() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << "no socket pair";
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Process 3 has called process 5.
struct TcpPair {
  explicit TcpPair(const std::string& callers_key = "key", int called = 5) {
    auto [a, b] = stream();
    caller = tcp_connection(std::move(a), {callers_key, 3, called});
    called_one = tcp_connection(std::move(b), {"key", 5, -1});
  }

  /// Both hear by turns until one of them has heard something else than nothing.
  std::pair<Heard, Heard> hear() {
    for (int round = 0; round < 10; ++round) {
      Message message;
      FileDescriptor none;
      const Heard there = called_one->hear(message, none), here = caller->hear(message, none);
      if (here != Heard::kNothing || there != Heard::kNothing) return {here, there};
    }
    return {Heard::kNothing, Heard::kNothing};
  }

  std::shared_ptr<Connection> caller, called_one;
};

TEST(TcpConnection, AfterMutualProof_CarriesMessagesWhole) {
  TcpPair pair;
  constexpr int kMessages = 50;
  const auto text = [](int i) {
    return std::string(i % 2 == 0 ? 0 : kMaxText - i, static_cast<char>('a' + i % 26));
  };
  for (int i = 0; i < kMessages; ++i) pair.caller->send({{MessageType::kAsk, i, 0, {}}, text(i)});
  Message message;
  FileDescriptor none;
  int heard = 0;
  for (int round = 0; round < 10'000 && heard < kMessages; ++round) {
    EXPECT_EQ(pair.caller->hear(message, none), Heard::kNothing);
    pair.caller->send_kept();
    if (pair.called_one->hear(message, none) != Heard::kMessage) continue;
    ASSERT_EQ(message.header.from, heard);
    ASSERT_TRUE(message.text == text(heard));
    ++heard;
  }
  EXPECT_EQ(heard, kMessages);
  EXPECT_FALSE(pair.caller->has_kept());
  EXPECT_EQ(pair.called_one->process, 3);
  pair.called_one->send(numbered(7));
  ASSERT_EQ(pair.caller->hear(message, none), Heard::kMessage);
  EXPECT_EQ(message.header.from, 7);
  pair.caller.reset();
  EXPECT_EQ(pair.called_one->hear(message, none), Heard::kEnd);
}

TEST(TcpConnection, WithAWrongKeyOrAddressee_Ends) {
  EXPECT_EQ(TcpPair("another key").hear().second, Heard::kEnd);
  EXPECT_EQ(TcpPair("").hear().second, Heard::kEnd);
  EXPECT_EQ(TcpPair("key", 4).hear().second, Heard::kEnd);
  // A stranger who listens where a process of the job did: it answers with its own number for a proof.
  auto [here, stranger] = stream();
  const auto caller = tcp_connection(std::move(here), {"key", 3, 5});
  Message message;
  FileDescriptor none;
  for (const char* frame : {"number", "no proof"}) {
    const std::uint32_t length = static_cast<std::uint32_t>(std::strlen(frame));
    ASSERT_EQ(write(stranger.get(), &length, sizeof length), 4);
    ASSERT_EQ(write(stranger.get(), frame, length), length);
  }
  EXPECT_EQ(caller->hear(message, none), Heard::kEnd);
}

std::string frame_of(const std::string& bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + bytes;
}

/// The result of process 5's `hear` after a stranger sent `answer(number)`; process 5 drew the number.
Heard heard_of_a_stranger(const std::function<std::string(const std::string& number)>& answer) {
  auto [there, stranger] = stream();
  const auto called = tcp_connection(std::move(there), {"key", 5, -1});
  char number[4 + 32];
  EXPECT_EQ(read(stranger.get(), number, sizeof number), static_cast<ssize_t>(sizeof number));
  const std::string bytes = answer(std::string(number + 4, 32));
  EXPECT_EQ(write(stranger.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  Message message;
  FileDescriptor none;
  return called->hear(message, none);
}

/// As the caller greets.
std::string greeting(const std::string& key, const std::string& number) {
  const std::string own(32, '1');
  const std::string proof =
      coordination::authentication_code(key, "lockstep peers 1", "connects 3 5 " + own + " " + number);
  return frame_of("3 5 " + own + " " + to_hex(proof));
}

TEST(TcpConnection, TooLongLengthsFromAStranger_EndTheConnection) {
  const auto length = [](std::uint32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof n);
  };
  EXPECT_EQ(heard_of_a_stranger([&](auto) { return length(0xffff'ffff); }), Heard::kEnd);
  EXPECT_EQ(heard_of_a_stranger([&](auto) { return length(300); }), Heard::kEnd);
  EXPECT_EQ(heard_of_a_stranger([&](auto) { return length(3); }), Heard::kNothing);
  const auto proved = [&](const std::string& then) {
    return heard_of_a_stranger([&](const std::string& number) { return greeting("key", number) + then; });
  };
  EXPECT_EQ(proved(""), Heard::kNothing);
  EXPECT_EQ(proved(length(sizeof(Header) + kMaxText)), Heard::kNothing);
  EXPECT_EQ(proved(length(sizeof(Header) + kMaxText + 1)), Heard::kEnd);
  EXPECT_EQ(proved(frame_of("shorter than a header")), Heard::kEnd);
  EXPECT_EQ(proved(frame_of(std::string(sizeof(Header), '\0'))), Heard::kMessage);
}

TEST(TcpConnection, AReplayedGreeting_EndsTheConnection) {
  std::string recorded;
  EXPECT_EQ(
      heard_of_a_stranger([&](const std::string& number) { return recorded = greeting("key", number); }),
      Heard::kNothing);
  EXPECT_EQ(heard_of_a_stranger([&](auto) { return recorded; }), Heard::kEnd);
  EXPECT_EQ(heard_of_a_stranger([&](auto number) { return greeting("another key", number); }), Heard::kEnd);
}

LOCKSTEP_CHILD(hears_a_stranger_without_hmac) {
  // Its proof is as empty as the one that OpenSSL does not make here.
  Heard heard = Heard::kEnd;
  try {
    heard = heard_of_a_stranger([](auto) {
      return frame_of("3 5 " + std::string(32, '1') + " ") + frame_of(std::string(sizeof(Header), 0));
    });
  } catch (const Error& error) {
    lockstep::testing::say(error.what());
  }
  EXPECT_EQ(heard, Heard::kEnd);
}

TEST(TcpConnection, WithoutHmacInOpenssl_RefusesAnEmptyProof) {
  const std::string configuration = ::testing::TempDir() + "/null-provider-for-connections.cnf";
  std::ofstream(configuration) << "openssl_conf = i\n[i]\nproviders = p\n[p]\nnull = n\n[n]\nactivate = 1\n";
  const auto result = lockstep::testing::run_processes(
      {.child = "hears_a_stranger_without_hmac", .env = {{"OPENSSL_CONF", configuration}}})[0];
  EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
