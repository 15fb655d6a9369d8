// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/connection.h"
#include "lockstep/collectives/plan.h"
#include "lockstep/collectives/rounds/algorithm.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/collectives/tcp_link.h"
#include "tests/parsers/fuzz.h"
#include "tests/parsers/sockets.h"

// Tests of the data on connections between processes after the greeting: parts of messages from other hosts,
// and messages from the same host.

namespace lockstep::parsers {
namespace {

using namespace collectives;

/// A step of a job between two hosts: a part over one of two connections, or what the receiver does.
struct Step {
  enum What : std::uint8_t { kPart0, kPart1, kAsk, kWithdraw };
  std::uint8_t what, tag;
  std::uint16_t message, bytes, offset, length;
};

void append(std::string& script, const Step& step) { script += as_bytes(step); }

/// Appends what host 1 sends to host 0 of 4 in this collective, and what host 0 asks for, earlier or later.
void append_collective(std::string& script, Kind kind, Algorithm way, bool late, std::uint16_t& message) {
  constexpr int kHosts = 4;
  const auto receiver = make_schedule(way, {kind, 0, kHosts, 1000, 0}),
             sender = make_schedule(way, {kind, 1, kHosts, 1000, 0});
  Round asks, sends;
  for (int round = 0; round < sender->rounds(); ++round) {
    asks.clear(), sends.clear();
    receiver->write(round, asks);
    sender->write(round, sends);
    std::string asked, sent;
    for (const RoundMessage& each : asks.receives)
      if (each.peer == 1)
        append(asked, {Step::kAsk, static_cast<std::uint8_t>(kind), 0, static_cast<std::uint16_t>(each.bytes),
                       0, 0});
    for (const RoundMessage& each : sends.sends) {
      if (each.peer != 0) continue;
      const auto bytes = static_cast<std::uint16_t>(each.bytes);
      const auto half = static_cast<std::uint16_t>(bytes / 2);
      const auto tag = static_cast<std::uint8_t>(kind);
      ++message;
      if (bytes < 200) {
        append(sent, {Step::kPart0, tag, message, bytes, 0, bytes});
      } else {
        append(sent, {Step::kPart0, tag, message, bytes, 0, half});
        append(sent, {Step::kPart1, tag, message, bytes, half, static_cast<std::uint16_t>(bytes - half)});
      }
    }
    script += late ? sent + asked : asked + sent;
  }
}

std::vector<std::string> scripts() {
  std::vector<std::string> scripts;
  for (const bool late : {false, true}) {
    for (const Algorithm way : kAlgorithms) {
      std::string script;
      std::uint16_t message = 0;
      for (int i = 0; i < 40; ++i)
        for (const Kind kind :
             {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll, Kind::kBroadcast})
          if (is_algorithm_of(way, kind)) append_collective(script, kind, way, late, message);
      scripts.push_back(script);
    }
  }
  return scripts;
}

/// The bytes of each connection, piece by piece: which, their number, and these; or what the receiver does.
std::string stream_of(const std::string& script) {
  std::string stream;
  for (std::size_t at = 0; at + sizeof(Step) <= script.size(); at += sizeof(Step)) {
    Step step;
    std::memcpy(&step, script.data() + at, sizeof step);
    step.what %= 4;
    stream += static_cast<char>(step.what);
    std::string bytes(1, static_cast<char>(step.tag));
    if (step.what <= Step::kPart1) {
      bytes = as_bytes(PartHeader{step.tag, step.message, step.bytes, step.offset, step.length});
      bytes += std::string(step.length % 2048, 'x');
    } else {
      bytes += as_bytes(step.bytes);
    }
    stream += as_bytes(static_cast<std::uint16_t>(bytes.size())) + bytes;
  }
  return stream;
}

constexpr std::size_t kAtOnce = 4 << 10;  ///< bytes; the socket takes more

std::uint64_t frames = 0;

/// The receiver: the inbox, and a model of what of each message has come.
class Receiver : public LinkOwner {
 public:
  bool proved(Link&) override { return true; }

  Incoming* begins(Link& link, const PartHeader& part) override {
    ++frames;
    if (part.bytes > kMost) {
      link.end("too large for the test");
      return nullptr;
    }
    Incoming* message = nullptr;
    try {
      message = inbox_.take(0, 0, part);
    } catch (const Error& error) {
      link.end(error.what());
      return nullptr;
    }
    if (message == nullptr) return nullptr;
    std::vector<bool>& come = come_[part.message];
    if (part.offset == 0) {
      if (!come.empty()) throw std::logic_error("a number that was in use");
      come.resize(part.bytes + 1);
    }
    for (std::uint64_t i = 0; i < part.length; ++i) {
      if (part.offset + i + 1 >= come.size()) throw std::logic_error("bytes beyond their message");
      if (come[part.offset + i]) throw std::logic_error("bytes that came before");
      come[part.offset + i] = true;
    }
    if (part.offset == 0)
      for (Link* other : links)
        if (other != &link) other->go_on();
    return message;
  }

  void has_arrived(Incoming& message) override { inbox_.has_arrived(message); }

  void ask(std::uint64_t tag, std::size_t size) {
    auto& request = requests_.emplace_back(std::make_unique<Request>());
    memory_.emplace_back(size);
    request->tag = tag;
    request->sender = tag % 2 == 0 ? -1 : 0;
    awaits_ |= request->sender == 0;
    request->data = memory_.back().data();
    request->size = size;
    inbox_.ask(*request);
    if (inbox_.turned_away())
      for (Link* link : links) link->go_on();
  }
  void withdraw(std::size_t which) {
    if (requests_.empty()) return;
    Request& request = *requests_[which % requests_.size()];
    if (!request.done) inbox_.withdraw(request);
  }
  void end() {
    if (!awaits_ && inbox_.held() > kRoom)
      throw std::logic_error("more than there is room for without being asked");
    inbox_.end(0, "gone", [&](const Incoming& message) {
      for (Link* link : links) link->forget(&message);
    });
    for (const auto& request : requests_)
      if (request->done && request->error == nullptr && request->bytes > request->size)
        throw std::logic_error("more than there is room for");
  }

  std::vector<Link*> links;

 private:
  static constexpr std::size_t kMost = 1 << 20;
  static constexpr std::size_t kRoom = 8 << 10;
  Inbox inbox_{kRoom};
  bool awaits_ = false;
  std::map<std::uint64_t, std::vector<bool>> come_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<std::vector<std::byte>> memory_;
};

class OtherEnd : public LinkOwner {
 public:
  bool proved(Link&) override { return true; }
  Incoming* begins(Link&, const PartHeader&) override { return nullptr; }
  void has_arrived(Incoming&) override {}
};

/// Two connections of a receiver, open.
struct Connections {
  explicit Connections(LinkOwner& receiver) {
    for (int number = 0; number < 2; ++number) {
      auto [here, there] = socket_pair();
      Link& accepted = *links.emplace_back(std::make_unique<Link>(receiver, one, std::move(here)));
      Link& called =
          *called_.emplace_back(std::make_unique<Link>(sender, other, std::move(there), one.own, number));
      for (int i = 0; i < 4 && !(accepted.is_open() && called.is_open()); ++i) {
        called.send_some();
        called.read_some();
        accepted.read_some();
        accepted.send_some();
      }
      if (!accepted.is_open() || accepted.other != other.own) throw std::logic_error("no greeting");
    }
  }
  /// False if there is no room, because the receiver waits for a part over the other connection.
  bool say(std::size_t link, const std::string& bytes) {
    return send(called_[link]->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  const LinkProof one{"secret", std::string(32, 'a')}, other{"secret", std::string(32, 'b')};
  OtherEnd sender;
  std::vector<std::unique_ptr<Link>> links;

 private:
  std::vector<std::unique_ptr<Link>> called_;
};

void receive(const std::string& stream) {
  Receiver receiver;
  Connections connections(receiver);
  for (const auto& link : connections.links) receiver.links.push_back(link.get());
  bool ended = false, full = false;
  std::string said;
  std::size_t over = 0;
  const auto hear = [&] {
    if (said.empty() || ended) return;
    full = !connections.say(over, std::exchange(said, ""));
    for (const auto& link : connections.links) {
      while (link->read_some()) {
      }
      ended |= link->has_ended();
    }
  };
  for (std::size_t at = 0; at + 3 <= stream.size() && !ended && !full;) {
    const auto what = static_cast<std::uint8_t>(stream[at] & 3);
    std::uint16_t size;
    std::memcpy(&size, stream.data() + at + 1, sizeof size);
    const std::string bytes = stream.substr(at + 3, size);
    at += 3 + std::size_t{size};
    if (what <= Step::kPart1) {
      if (what != over || said.size() > kAtOnce) hear();
      over = what;
      said += bytes;
      continue;
    }
    hear();
    if (bytes.size() < 3) continue;
    std::uint16_t number;
    std::memcpy(&number, bytes.data() + 1, sizeof number);
    if (what == Step::kAsk)
      receiver.ask(static_cast<std::uint8_t>(bytes[0]), number);
    else
      receiver.withdraw(number);
  }
  hear();
  receiver.end();
  if (ended) fail<Error>("ended");
}

TEST(DataConnections, MutatedParts_WriteOnlyToTheirMemory) {
  frames = 0;
  fuzz<Error>({.name = "parts over data connections",
               .seeds = scripts(),
               .read = receive,
               .wrap = stream_of,
               .mutations = 200});
  std::printf("%llu parts\n", static_cast<unsigned long long>(frames));
}

TEST(DataConnections, MutatedGreetings_ProveNothing) {
  fuzz<Error>(
      {.name = "greetings over data connections",
       .seeds = {std::string(32, 'b') + std::string(52, '\0'), "lockstep data 1\n" + std::string(16, 'n')},
       .read =
           [](const std::string& bytes) {
             for (const bool accepts : {true, false}) {
               auto [here, there] = socket_pair();
               OtherEnd owner;
               const LinkProof one{"secret", std::string(32, 'a')};
               const auto link =
                   accepts ? std::make_unique<Link>(owner, one, std::move(here))
                           : std::make_unique<Link>(owner, one, std::move(here), std::string(32, 'b'), 0);
               link->send_some();
               send_all(there.get(), bytes.substr(0, 100 << 10));
               for (int i = 0; i < 10 && link->read_some(); ++i) link->send_some();
               if (link->is_open()) throw std::logic_error("a stranger was believed");
             }
           },
       .mutations = 1000,
       .refuses = false,
       .memory = std::size_t{1} << 20});
}

/// A packet of a message within a host: its length, how many descriptors go with it, and its bytes.
std::string packet_of(MessageType type, const std::string& text, int descriptors = 0) {
  Header header{};
  header.type = type;
  header.from = 1;
  header.pid = 4711;
  const std::string bytes = as_bytes(header) + text;
  return as_bytes(static_cast<std::uint16_t>(bytes.size())) + static_cast<char>(descriptors) + bytes;
}

void send_packet(int socket, const std::string& bytes, int descriptors) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(static_cast<std::size_t>(descriptors) * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(static_cast<std::size_t>(descriptors) * sizeof(int));
    const int some[] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
    std::memcpy(CMSG_DATA(header), some, static_cast<std::size_t>(descriptors) * sizeof(int));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) throw std::logic_error("sendmsg");
}

TEST(UnixConnections, MutatedMessagesOfJobs_AreReadOrEndTheConnection) {
  frames = 0;
  const std::string waits = encode(std::vector<Wait>{{}});
  const auto exchange = packet_of(MessageType::kAsk, "") + packet_of(MessageType::kWaits, waits);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  fuzz<Error>(
      {.name = "messages of peers of one host",
       .seeds = {packet_of(MessageType::kHello, "00ff") + packet_of(MessageType::kSegment, "0/1/2", 1) +
                     exchange + exchange + packet_of(MessageType::kBye, ""),
                 packet_of(MessageType::kHello, "00ff") + packet_of(MessageType::kWant, "code 77") +
                     packet_of(MessageType::kGiven, "code 77", 1) +
                     packet_of(MessageType::kDivergence, "differs"),
                 packet_of(MessageType::kFailure, std::string(kMaxText, 'x')) +
                     packet_of(MessageType::kGiven, "code 77", 2)},
       .read =
           [&](const std::string& bytes) {
             auto [here, there] = socket_pair(SOCK_SEQPACKET);
             const auto connection = unix_connection(std::move(here), 1);
             for (std::size_t at = 0; at + 3 <= bytes.size();) {
               std::uint16_t size;
               std::memcpy(&size, bytes.data() + at, sizeof size);
               const std::string packet = bytes.substr(at + 3, size);
               send_packet(there.get(), packet, bytes[at + 2] & 3);
               at += 3 + std::size_t{size};
               Message message;
               FileDescriptor descriptor;
               const Connection::Heard heard = connection->hear(message, descriptor);
               ++frames;
               if (heard == Connection::Heard::kEnd) fail<Error>("ended: {}", connection->trouble());
               if (heard == Connection::Heard::kNothing) throw std::logic_error("a message that is lost");
               if (message.text.size() > kMaxText || message.header.type > MessageType::kGiven ||
                   message.text != packet.substr(sizeof(Header)))
                 throw std::logic_error("another message than was sent");
               if (message.header.type == MessageType::kWaits) find_ring(decode(message.text), 0);
             }
           },
       .mutations = 3000});
  EXPECT_EQ(descriptors(), before) << "descriptors stay open";
  std::printf("%llu messages\n", static_cast<unsigned long long>(frames));
}

}  // namespace
}  // namespace lockstep::parsers
