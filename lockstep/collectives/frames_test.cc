// SPDX-License-Identifier: Apache-2.0
// A process of the job that sends what cannot be: one error names it, and its connection is closed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/collectives/connection.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/network.h"
#include "lockstep/collectives/networks.h"
#include "lockstep/collectives/tcp_link.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

/// The other end of the data connections of a mailbox, which sends any parts.
class Forger : public LinkOwner {
 public:
  explicit Forger(const std::string& address) {
    const std::string_view to = std::string_view(address).substr(kTcpAddress.size());
    const auto at = SocketAddress::parse(std::string(to.substr(33)));
    for (int number = 0; number < 2; ++number) {
      FileDescriptor socket(::socket(at->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(socket.get(), at->get(), at->size), 0);
      EXPECT_EQ(fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
      links_.emplace_back(*this, proof_, std::move(socket), std::string(to.substr(0, 32)), number);
    }
  }

  bool proved(Link&) override { return true; }
  Incoming* begins(Link&, const PartHeader&) override { return nullptr; }
  void has_arrived(Incoming&) override {}

  void send(int link, const PartHeader& part) {
    links_[static_cast<std::size_t>(link)].send(part, bytes_.data(), &request_);
  }
  bool is_open() {
    bool open = true;
    for (Link& link : links_) {
      link.send_some();
      link.read_some();
      open = open && link.is_open();
    }
    return open;
  }
  /// As an endpoint of the mailbox that it has called.
  std::string address() const { return std::string(kTcpAddress) + proof_.own + " 127.0.0.1:1"; }

 private:
  const LinkProof proof_{"s", std::string(32, 'a')};
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 16, std::byte{'X'});
  Request request_;
  std::deque<Link> links_;
};

struct Forged {
  const char* name;
  std::vector<std::pair<int, PartHeader>>
      parts;  ///< over which connection; tag, message, bytes, offset, length
  const char* error;
};

std::ostream& operator<<(std::ostream& out, const Forged& forged) { return out << forged.name; }

class ForgedParts : public ::testing::TestWithParam<Forged> {};

TEST_P(ForgedParts, AreRefused_AndNothingElseIsWritten) {
  const auto network = Network::open({.interface = "lo", .network = "tcp", .secret = "s"});
  const auto mailbox = network->open_mailbox();
  Forger forger(mailbox->address());
  const auto until = [&](const std::function<bool()>& done) {
    const auto end = steady_clock::now() + testing::kAtOnce;
    while (!done() && steady_clock::now() < end) {
      forger.is_open();
      if (!mailbox->progress()) mailbox->sleep(std::chrono::milliseconds(1));
    }
    return done();
  };
  ASSERT_TRUE(until([&] { return forger.is_open(); }));
  const int endpoint = mailbox->connect(forger.address());
  // The data before the forged part is as it should be.
  constexpr std::size_t kBytes = 64, kBehind = 64 << 10;
  std::vector<char> data(kBytes + kBehind, 'o');
  Transfer receives = mailbox->receive(endpoint, 7, data.data(), kBytes);
  for (const auto& [link, part] : GetParam().parts) forger.send(link, part);
  ASSERT_TRUE(until([&] { return mailbox->broken(endpoint) != nullptr; }));
  EXPECT_THAT(mailbox->broken(endpoint), HasSubstr(GetParam().error));
  EXPECT_EQ(std::count(data.begin() + kBytes, data.end(), 'o'), static_cast<std::ptrdiff_t>(kBehind));
  EXPECT_TRUE(until([&] { return !forger.is_open(); }));
  mailbox->cancel(receives);
  EXPECT_TRUE(until([&] { return mailbox->finished(receives); }));
}

constexpr PartHeader kFirstPart{7, 1, 64, 0, 32};
const Forged kForged[] = {
    {"BeyondItsOwnTotal", {{0, {7, 1, 64, 32, 33}}}, "within 0 to 64"},
    {"OffsetThatOverflows", {{0, {7, 1, 64, ~std::uint64_t{0} - 8, 64}}}, "within 0 to 64"},
    {"Empty", {{0, {7, 1, 64, 0, 0}}}, "within 0 to 64"},
    {"AnotherTotal", {{0, kFirstPart}, {0, {7, 1, 4096, 64, 4000}}}, "tag 0x7 and 64 bytes in all"},
    {"AnotherTotalOverAnotherConnection", {{0, kFirstPart}, {1, {7, 1, 4096, 64, 4000}}}, "64 bytes in all"},
    {"FarBeyond",
     {{0, kFirstPart}, {1, {7, 1, std::uint64_t{1} << 40, std::uint64_t{1} << 36, 64}}},
     "64 bytes in all"},
    {"AnotherTag", {{0, kFirstPart}, {1, {8, 1, 64, 32, 32}}}, "tag 0x7 and 64"},
    {"BytesThatCameBefore", {{0, kFirstPart}, {1, {7, 1, 64, 16, 32}}}, "not received before"},
    {"TheSamePartTwice",
     {{0, {9, 1, 64, 0, 16}}, {0, {9, 1, 64, 32, 8}}, {0, {9, 1, 64, 32, 8}}},
     "not received before"},
    {"NumberInUse", {{0, kFirstPart}, {0, kFirstPart}}, "expected message 2"},
    {"NumberOfACompleteMessage", {{0, {7, 1, 64, 0, 64}}, {0, {7, 1, 64, 0, 64}}}, "expected message 2"},
    {"NumberOfOneThatNobodyAskedFor", {{0, {9, 1, 64, 0, 64}}, {0, {9, 1, 64, 0, 64}}}, "expected message 2"},
    {"PartOfACompleteMessage", {{0, {7, 1, 64, 0, 64}}, {1, {7, 1, 64, 32, 32}}}, "which is complete"},
    {"NumberThatIsNotNext", {{0, {9, 2, 64, 0, 64}}}, "expected message 1"},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They end the process.
    {"MoreThanThereIsMemoryFor", {{0, {9, 1, std::uint64_t{1} << 62, 0, 16}}}, "not enough memory"},
#endif
};

INSTANTIATE_TEST_SUITE_P(Of, ForgedParts, ::testing::ValuesIn(kForged),
                         [](const auto& info) { return info.param.name; });

// Between processes of one host, and of two, by hand.

struct Said {
  MessageType type = MessageType::kAsk;
  int from = 1;
  std::size_t header = sizeof(Header), text = 0;
  const char* error;
};

const Said kSaid[] = {
    {.header = 7, .error = "bytes, got 7"},
    {.text = kMaxText + 1, .error = "bytes, got "},
    {.type = static_cast<MessageType>(77), .error = "expected a message of type 0 to 8, got type 77"},
    {.from = 0, .error = "expected a message of process 1, got one of process 0"},
};

/// Process 1 of 2, which says this after its greeting.
void forge(coordination::KeyValueStore& store, const WorldOptions& options, const Said& said) {
  const Address target =
      Address::decode(store.get("lockstep/collectives/" + options.job_id + "/0", testing::kAtOnce));
  const bool remote = target.control != "-";
  const auto tcp = SocketAddress::parse(target.control);
  FileDescriptor fd =
      remote ? FileDescriptor(socket(tcp->family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) : open_socket();
  const auto [local, size] = socket_address(target.name);
  ASSERT_EQ(remote ? connect(fd.get(), tcp->get(), tcp->size)
                   : connect(fd.get(), reinterpret_cast<const sockaddr*>(&local), size),
            0);
  const auto connection = remote ? tcp_connection(std::move(fd), {options.job_secret + target.token, 1, 0})
                                 : unix_connection(std::move(fd), 0);
  Message hello{{MessageType::kHello, 1, getpid(), {}}, remote ? "host" : target.token}, heard;
  connection->send(hello);
  FileDescriptor none;
  const auto end = steady_clock::now() + testing::kAtOnce;
  const auto hear = [&] { return connection->hear(heard, none); };
  while (hear() != Connection::Heard::kMessage && steady_clock::now() < end) std::this_thread::yield();
  std::string bytes(said.header + said.text, 'x');
  const Header header{said.type, said.from, getpid(), {}};
  std::memcpy(bytes.data(), &header, std::min(said.header, sizeof header));
  const auto length = static_cast<std::uint32_t>(bytes.size());
  if (remote) bytes.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  EXPECT_EQ(::send(connection->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  // It is told why, and the connection ends.
  std::string last;
  for (Connection::Heard now; (now = hear()) != Connection::Heard::kEnd && steady_clock::now() < end;)
    if (now == Connection::Heard::kMessage && heard.header.type == MessageType::kFailure) last = heard.text;
  EXPECT_EQ(hear(), Connection::Heard::kEnd);
  EXPECT_THAT(last, HasSubstr(said.error));
}

LOCKSTEP_CHILD(hears_what_is_no_message) {
  FolderKeyValueStore store(shared_folder());
  for (const int hosts : {1, 2}) {
    for (std::size_t i = 0; i < std::size(kSaid); ++i) {
      WorldOptions options = child_options(store, 1, hosts);
      options.carries_data = false;
      options.job_secret = "secret";
      options.job_id = std::to_string(hosts) + "-" + std::to_string(i);
      if (testing::child_index() == 1) {
        forge(store, options, kSaid[i]);
        continue;
      }
      Job job(options, [] {});
      const auto end = steady_clock::now() + testing::kAtOnce;
      const std::string error = message_of<PeerFailure>([&] {
        for (; steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
          job.check();
      });
      EXPECT_THAT(error, HasSubstr("process 0 of 2 ended its connection to process 1 of 2"));
      EXPECT_THAT(error, HasSubstr(kSaid[i].error));
    }
  }
}

TEST(ForgedMessages, BetweenProcesses_EndTheJobAndNameTheSender) {
  for (const auto& result : testing::run_processes({.count = 2, .child = "hears_what_is_no_message"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
