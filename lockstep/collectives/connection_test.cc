#include "lockstep/collectives/connection.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/collectives/test_descriptors.h"

namespace lockstep::collectives {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << "no socket pair";
    here = std::make_unique<Connection>(FileDescriptor(ends[0]), 1);
    there = std::make_unique<Connection>(FileDescriptor(ends[1]), 0);
  }
  std::unique_ptr<Connection> here, there;
};

Message numbered(int i, MessageType type = MessageType::kAsk) {
  return {{type, i, 0, {}}, std::to_string(i)};
}

TEST(Connection, KeepsWhatThePeerHasNoRoomFor_AndItsDescriptor) {
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

TEST(Connection, SaysWhereADescriptorDidNotArrive) {
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

TEST(Connection, EndsWithItsProcess_ThoughAForkedChildLives) {
  Pair pair;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  pair.here.reset();
  Message message;
  FileDescriptor fd;
  const int there = pair.there->descriptor();
  timeval limit{10, 0};
  setsockopt(there, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  errno = 0;
  EXPECT_EQ(pair.there->hear(message, fd), Connection::Heard::kEnd);
  EXPECT_NE(errno, EAGAIN) << "it has not ended in 10 s";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace lockstep::collectives
