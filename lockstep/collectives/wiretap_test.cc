// SPDX-License-Identifier: Apache-2.0
// Tests of what a third party between two hosts sees of the data, and can do to it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::string_view kSecret = "what nobody on the way may read ";

/// Passes on what one process calls the other's mailbox to say, and the answers.
class Eavesdropper {
 public:
  /// Changes some bytes of the caller after so many, more than the head of a record has; -1: none.
  explicit Eavesdropper(long changed) : changes_after_(changed), listener_(tcp()) {
    sockaddr_in at = loopback(0);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(listener_.get(), 5), 0);
  }
  ~Eavesdropper() { finish(); }

  /// The address to publish instead of this one, "... HOST:PORT".
  std::string instead_of(const std::string& address) {
    const std::size_t port = address.rfind(':') + 1;
    real_port_ = std::stoi(address.substr(port));
    sockaddr_in at{};
    socklen_t size = sizeof at;
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    thread_ = std::thread([this] { pass_on(); });
    return address.substr(0, port) + std::to_string(ntohs(at.sin_port));
  }

  /// Until one of the two has ended the connection, and all has been passed on.
  void finish() {
    nobody_comes_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// After it has finished.
  bool has_seen(std::string_view text) const { return seen_.find(text) != std::string::npos; }
  std::size_t bytes() const { return seen_.size(); }

 private:
  static constexpr long kChanged = 8;
  static FileDescriptor tcp() { return FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
  static sockaddr_in loopback(int port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    return at;
  }

  static bool readable(std::initializer_list<int> descriptors) {
    std::vector<pollfd> polled;
    for (int fd : descriptors) polled.push_back({fd, POLLIN, 0});
    return poll(polled.data(), polled.size(), 20) > 0;
  }

  void pass_on() {
    while (!readable({listener_.get()}))
      if (nobody_comes_) return;
    const FileDescriptor caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), called = tcp();
    const sockaddr_in at = loopback(real_port_);
    if (connect(called.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return;
    std::vector<char> bytes(1 << 16);
    long from_caller = 0;
    for (;;) {
      if (!readable({caller.get(), called.get()})) continue;
      for (const auto& [from, to] :
           {std::pair(caller.get(), called.get()), std::pair(called.get(), caller.get())}) {
        const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) continue;
        if (got <= 0) return;
        seen_.append(bytes.data(), static_cast<std::size_t>(got));
        if (from == caller.get()) {
          for (long i = 0; changes_after_ >= 0 && i < kChanged; ++i) {
            const long at_byte = changes_after_ + i - from_caller;
            if (at_byte >= 0 && at_byte < got) bytes[static_cast<std::size_t>(at_byte)] ^= 4;
          }
          from_caller += got;
        }
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t some =
              send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
          if (some <= 0) return;
          sent += some;
        }
      }
    }
  }

  const long changes_after_;
  const FileDescriptor listener_;
  int real_port_ = 0;
  std::string seen_;
  std::atomic<bool> nobody_comes_ = false;
  std::thread thread_;
};

/// Publishes the mailboxes of a process as those of the eavesdropper.
class TappedStore : public FolderKeyValueStore {
 public:
  explicit TappedStore(Eavesdropper& tap) : FolderKeyValueStore(shared_folder()), tap_(tap) {}

  void set(const std::string& key, const std::string& value, bool allow_overwrite) override {
    if (!key.ends_with("/1")) return FolderKeyValueStore::set(key, value, allow_overwrite);
    Address address = Address::decode(value);
    for (auto& [device, lane] : address.lanes) lane = tap_.instead_of(lane);
    FolderKeyValueStore::set(key, address.encode(), allow_overwrite);
  }

 private:
  Eavesdropper& tap_;
};

/// Takes part in each kind of collective, with arrays that say the same again and again.
void say_the_secret(World& world) {
  Communicator& communicator = world.communicator({0, 1});
  for (const Kind kind : {Kind::kAllGather, Kind::kPermute, Kind::kBroadcast, Kind::kAllToAll,
                          Kind::kReduceScatter, Kind::kAllReduce}) {
    for (const std::int64_t count : {64, 100'000}) {
      Collective what{.kind = kind, .dtype = DType::kU8, .count = count};
      what.op = ReduceOp::kMax;
      if (kind == Kind::kPermute) what.pairs = {{0, 1}, {1, 0}};
      const Call call = make_call(what, 2);
      std::string in(call.input_bytes, ' '), out(call.output_bytes, ' ');
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = kSecret[i % kSecret.size()];
      communicator.run(call, world.options().process_index, in.data(), out.data());
      EXPECT_THAT(out.substr(0, kSecret.size()), kSecret) << call.text;
    }
  }
}

LOCKSTEP_CHILD(says_what_is_secret) {
  Eavesdropper tap(-1);
  {
    TappedStore tapped(tap);
    FolderKeyValueStore plain(shared_folder());
    const bool is_tapped = testing::child_index() == 1;
    const auto world = World::create(
        child_options(is_tapped ? static_cast<coordination::KeyValueStore&>(tapped) : plain, 1, 2));
    say_the_secret(*world);
    world->leave();
  }
  tap.finish();
  if (testing::child_index() == 1)
    testing::say(fmt::format("{} bytes were passed on, and the secret was {}",
                             tap.bytes() > 500'000 ? "many" : "few",
                             tap.has_seen(kSecret) ? "seen" : "not seen"));
}

TEST(OnTheWay, EncryptedArrays_CannotBeRead) {
  for (const char* network : {"tcp", "tls"}) {
    const auto results = testing::run_processes(
        {.count = 2, .child = "says_what_is_secret", .env = {{kNetworkVariable, network}}});
    for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_THAT(results[1].log, HasSubstr(network == std::string("tcp")
                                              ? "many bytes were passed on, and the secret was seen"
                                              : "many bytes were passed on, and the secret was not seen"));
  }
}

LOCKSTEP_CHILD(hears_what_was_changed) {
  Eavesdropper tap(std::stol(testing::child_arguments().at(0)));
  TappedStore tapped(tap);
  FolderKeyValueStore plain(shared_folder());
  const bool is_tapped = testing::child_index() == 1;
  const auto world = World::create(
      child_options(is_tapped ? static_cast<coordination::KeyValueStore&>(tapped) : plain, 1, 2));
  testing::say("said: " + message_of<PeerFailure>([&] { say_the_secret(*world); }));
}

TEST(OnTheWay, ChangedBytes_EndTheOperation_AndTheSenderIsNamed) {
  // Within messages, and around their beginnings and ends, some of which nobody waits for yet.
  for (const char* after : {"2000", "100900", "300000", "301000"}) {
    SCOPED_TRACE(after);
    const auto results = testing::run_processes({.count = 2,
                                                 .child = "hears_what_was_changed",
                                                 .arguments = {after},
                                                 .env = {{kNetworkVariable, "tls"}}});
    for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
    // The receiver's words, or the sender's, whose connection the receiver has ended.
    for (const auto& result : results)
      EXPECT_THAT(result.log, AllOf(HasSubstr("said: the connection of process "), HasSubstr("process 1"),
                                    AnyOf(HasSubstr("the received data is not what the other side sent"),
                                          HasSubstr("the other side broke TLS off")),
                                    HasSubstr("the data was changed on the way")));
  }
}

}  // namespace
}  // namespace lockstep::collectives
