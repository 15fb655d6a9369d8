// SPDX-License-Identifier: Apache-2.0
#pragma once

// The messages that a mailbox receives over TCP; only for tcp_network.cc and its links.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::collectives {

struct Incoming;

/// The target of Transfer::request.
struct Request {
  int parts = 0;  ///< of a message to send: what has not left yet
  bool done = false;
  const char* error = nullptr;
  // For a message to receive:
  std::uint64_t tag = 0;
  int sender = -1;  ///< -1: not known
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::size_t bytes = 0;         ///< received
  Incoming* incoming = nullptr;  ///< what arrives for it
};

/// Before each part of a message. A message's first part comes over link 0, in the order of the messages.
struct PartHeader {
  std::uint64_t tag;
  std::uint64_t message;  ///< its number; each sender counts
  std::uint64_t bytes;    ///< of the message
  std::uint64_t offset;   ///< of this part
  std::uint64_t length;
};

/// A message that arrives.
struct Incoming {
  int peer = -1;
  std::uint64_t tag = 0, message = 0;
  std::size_t bytes = 0, arrived = 0;
  std::size_t begun = 0;  ///< bytes of the parts that have begun
  /// Offsets and ends of these, if the first is not the whole message.
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  std::unique_ptr<std::byte[]> own;  ///< where it goes while nobody has asked for it
  Request* request = nullptr;        ///< who has
  std::byte* into = nullptr;         ///< null: it is dropped
  bool done() const { return arrived == bytes; }
};

/// The messages that have come and those that are asked for, matched by their tags, in order for each sender
/// and tag.
class Inbox {
 public:
  /// Messages that nobody has asked for hold up to `room` bytes.
  explicit Inbox(std::size_t room) : room_(room) {}

  /// Somebody asks for the next message with the request's tag.
  void ask(Request& request);

  /// Nobody asks any more; false if a message arrives for it already.
  bool withdraw(Request& request);

  /// A part has come from `sender`: the message whose memory it belongs to. Null: the message's first part
  /// has not come yet; ask again when it has. Null, and turned_away(): nobody has asked for the message, and
  /// there is no room for it; ask again when anything else was asked for, or ended. What an awaited message
  /// of the same sender may be behind of is never turned away. Throws Error for a part that cannot be: it is
  /// not within its message, its message is another one than its first part said or is complete, these bytes
  /// came before, or the number is not the one after that of the peer's last message. So everything that a
  /// link writes is within the message's memory. Throws Error also if there is no memory for the message.
  Incoming* take(int peer, int sender, const PartHeader& part);

  /// Whether there was no room for a message since this was asked last.
  bool turned_away() { return std::exchange(turned_away_, false); }

  /// The bytes that messages hold for which nobody has asked.
  std::size_t held() const { return held_; }

  /// The message is complete.
  void has_arrived(Incoming& message);

  /// Nothing more comes from the peer: what is incomplete fails with the error, which must live as long as
  /// the requests. `forget` is called for each such message before it is destroyed.
  void end(int peer, const char* error, const std::function<void(const Incoming&)>& forget);

 private:
  /// The bytes that a message holds until it is asked for.
  static std::size_t cost(std::size_t bytes) { return bytes + sizeof(Incoming); }
  Incoming* begin(int peer, int sender, const PartHeader& part);
  /// Adds `change` to the number of awaited messages from the request's sender.
  void count(const Request& request, int change);
  static void give(Incoming& message, Request& request);
  void finish(Incoming& message);

  const std::size_t room_;
  std::size_t held_ = 0;
  bool turned_away_ = false;
  std::vector<int> awaited_;  // by sender: messages that are asked for and have not begun
  std::unordered_map<std::uint64_t, std::deque<Request*>> asked_;                // by tag
  std::unordered_map<std::uint64_t, std::deque<Incoming*>> unasked_;             // by tag
  std::map<std::pair<int, std::uint64_t>, std::unique_ptr<Incoming>> arriving_;  // until they are taken
  std::vector<std::uint64_t> last_;  // by peer: the number of its last message that has begun
};

}  // namespace lockstep::collectives
