// SPDX-License-Identifier: Apache-2.0
#pragma once

// A TCP connection between two mailboxes; only for tcp_network.cc.

#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/confirmations.h"
#include "lockstep/collectives/forked_child.h"
#include "lockstep/collectives/tcp_inbox.h"
#include "lockstep/coordination/tls/tls.h"
#include "lockstep/coordination/tls/tls_stream.h"

namespace lockstep::collectives {

/// An identity of a mailbox, random, as 32 hexadecimal digits.
using MailboxId = std::string;

class Link;

/// The calls of a link to its mailbox.
class LinkOwner {
 public:
  /// The other side has proved that it belongs to the job. False: end the link.
  virtual bool proved(Link& link) = 0;

  /// A part begins: the message, in whose memory there is room for it (Inbox::take). Null: the message is not
  /// known yet; ask again when its first part has come; or the part cannot be, and the link was ended.
  virtual Incoming* begins(Link& link, const PartHeader& part) = 0;
  virtual void has_arrived(Incoming& message) = 0;

 protected:
  ~LinkOwner() = default;
};

/// The data with which a side proves that it belongs to the job.
struct LinkProof {
  std::string secret;
  MailboxId own;
  std::shared_ptr<const coordination::Tls> tls = {};  ///< null: plain text
};

/// One of the connections to another mailbox. Nothing blocks. With TLS, everything goes through it. Begins
/// with
///   accepting side    a magic number and a random number
///   connecting side   its mailbox, which link this is, a random number, its proof
///   accepting side    its proof
/// and goes on, in both directions, with parts of messages: a PartHeader and its bytes.
class Link {
 public:
  using Clock = std::chrono::steady_clock;

  /// An accepted one.
  Link(LinkOwner& owner, const LinkProof& proof, FileDescriptor socket);
  /// One that this side makes, to that mailbox; the socket is connected or about to be.
  Link(LinkOwner& owner, const LinkProof& proof, FileDescriptor socket, MailboxId to, int number);

  int descriptor() const { return socket_.get(); }
  bool is_open() const { return state_ == State::kOpen; }
  bool has_ended() const { return state_ == State::kEnded; }
  /// Whether the other side has ended it before it said anything: it may have had too many strangers.
  bool was_pushed_out() const { return state_ == State::kPushedOut; }
  /// Calls again, if it was pushed out; what is queued stays.
  void call_again(FileDescriptor socket);
  const std::string& trouble() const { return trouble_; }  ///< why it has ended
  /// The time at which the other side's end was read, if that is why it has ended.
  std::optional<Clock::time_point> other_side_ended() const { return other_side_ended_; }
  /// Whether it has ended because what arrived is not what the other side sent.
  bool has_bad_data() const { return has_bad_data_; }

  /// Queues a part, whose memory must stay valid until the request is done; `request->parts` counts it.
  void send(const PartHeader& part, const void* data, Request* request);
  /// Queues a mark: the request is done with this part when everything before it has left.
  void mark(Request* request);

  /// Sends what there is room for; returns whether anything was sent.
  bool send_some();
  bool wants_to_send() const;

  /// Reads what has come, some of it at a time; returns whether there was anything, the end included.
  bool read_some();
  /// Whether there may be something to read although the socket is not readable.
  bool may_have_more() const { return tls_ != nullptr && tls_->may_have_more() && !held_ && !has_ended(); }
  /// Whether it waits until its owner takes the part that has begun.
  bool is_held() const { return held_; }
  /// Whether it waits for room for a message that nobody has asked for.
  bool waits_for_room() const { return held_ && part_.offset == 0 && state_ == State::kOpen; }
  /// Goes on with a part that was held; returns whether it could.
  bool go_on();

  /// Ends it: what is queued fails with the error, which must outlive the requests.
  void end(std::string trouble);
  void fail_queued(const char* error);
  /// The message that was arriving is dropped from now on.
  void forget(const Incoming* message);

  /// See Mailbox::unanswered.
  Clock::time_point unanswered(Clock::time_point now) { return confirmations_.unanswered(descriptor(), now); }

  /// Whether the other side's system has all that was sent.
  bool is_acknowledged() const;

  const bool accepted;
  MailboxId other;             ///< the mailbox at the other end, once it is known
  int number = 0;              ///< among the links of the two mailboxes that one side has made
  int peer = -1;               ///< for the owner
  std::uint32_t interest = 0;  ///< for the owner: what it has asked epoll for
  const Clock::time_point begun = Clock::now();

 private:
  enum class State : std::uint8_t { kConnecting, kGreeting, kProving, kOpen, kPushedOut, kEnded };
  struct Queued {
    PartHeader header;
    const std::byte* data;
    std::size_t sent;  ///< of the header and the data
    std::size_t total;
    Request* request;
  };

  void connected();
  bool shake_hands();
  std::string proof(bool accepts, const std::string& accepting, const std::string& connecting) const;
  bool send_greeting();
  /// Begins TLS, if it is used.
  void begin_tls();
  /// As sendmsg.
  ssize_t put(std::span<const iovec> pieces);
  bool read_through_tls();
  /// There is nothing more to read, as the read says that gave `got` and this errno.
  void end_of_reading(ssize_t got, int error);
  void parse();
  bool begin_part();
  void arrived(std::size_t bytes);

  LinkOwner& owner_;
  const LinkProof& proof_;
  FileDescriptor socket_;
  std::optional<NotForChildren> alone_;
  std::unique_ptr<coordination::TlsStream> tls_;  ///< null: plain text, or it is being connected
  State state_;
  bool held_ = false;
  bool has_bad_data_ = false;
  std::string trouble_;
  std::optional<Clock::time_point> other_side_ended_;
  std::string nonce_, drawn_;  ///< drawn here, and there
  std::string greeting_;       ///< to be sent before all else
  std::deque<Queued> queue_;

  Confirmations confirmations_;

  std::vector<std::byte> buffer_;
  std::size_t from_ = 0, until_ = 0;  ///< what is in the buffer and not used yet
  PartHeader part_{};
  std::size_t missing_ = 0;  ///< of the part
  Incoming* incoming_ = nullptr;
  bool in_part_ = false;
};

}  // namespace lockstep::collectives
