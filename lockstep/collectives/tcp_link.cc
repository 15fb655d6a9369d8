// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/tcp_link.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/coordination/identity/proof.h"

namespace lockstep::collectives {
namespace {

constexpr std::string_view kMagic = "lockstep data 1\n";
constexpr std::size_t kNonce = 16, kProof = 32, kId = 32;

/// The size of the buffer for small messages, several at once, and for data that is dropped.
constexpr std::size_t kBuffer = 64 << 10;

/// The maximal number of parts that one call of the system sends, and of TLS's records that one look reads.
constexpr std::size_t kPartsAtOnce = 16, kRecordsAtOnce = 16;

struct Challenge {
  char magic[kMagic.size()];
  char nonce[kNonce];
};
struct Hello {
  char from[kId];
  std::uint32_t number;
  char nonce[kNonce];
  char proof[kProof];
};

template <class T>
std::string bytes_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

bool would_block(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Link::Link(LinkOwner& owner, const LinkProof& proof, FileDescriptor socket)
    : accepted(true),
      owner_(owner),
      proof_(proof),
      socket_(std::move(socket)),
      alone_(std::in_place, socket_.get()),
      state_(State::kGreeting),
      nonce_(coordination::random_nonce()),
      buffer_(kBuffer) {
  Challenge challenge;
  std::memcpy(challenge.magic, kMagic.data(), sizeof challenge.magic);
  std::memcpy(challenge.nonce, nonce_.data(), sizeof challenge.nonce);
  greeting_ = bytes_of(challenge);
  begin_tls();
  send_some();
}

Link::Link(LinkOwner& owner, const LinkProof& proof, FileDescriptor socket, MailboxId to, int number)
    : accepted(false),
      other(std::move(to)),
      number(number),
      owner_(owner),
      proof_(proof),
      socket_(std::move(socket)),
      alone_(std::in_place, socket_.get()),
      state_(State::kConnecting),
      nonce_(coordination::random_nonce()),
      buffer_(kBuffer) {}

void Link::send(const PartHeader& part, const void* data, Request* request) {
  ++request->parts;
  queue_.push_back({part, static_cast<const std::byte*>(data), 0,
                    sizeof part + static_cast<std::size_t>(part.length), request});
}

void Link::mark(Request* request) {
  ++request->parts;
  queue_.push_back({{}, nullptr, 0, 0, request});
}

bool Link::wants_to_send() const {
  if (state_ == State::kEnded || state_ == State::kPushedOut) return false;
  if (tls_ != nullptr && tls_->has_kept()) return true;
  if (tls_ != nullptr && !tls_->is_open()) return false;
  return state_ == State::kConnecting || !greeting_.empty() || (state_ == State::kOpen && !queue_.empty());
}

void Link::begin_tls() {
  if (proof_.tls == nullptr) return;
  tls_ = accepted ? proof_.tls->accept(descriptor()) : proof_.tls->connect(descriptor());
}

ssize_t Link::put(std::span<const iovec> pieces) {
  if (tls_ != nullptr) return tls_->write(pieces);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return sendmsg(descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Whether the greeting has left, and what TLS has kept.
bool Link::send_greeting() {
  if (tls_ != nullptr && tls_->has_kept()) tls_->send_kept();
  while (!greeting_.empty()) {
    const iovec all{greeting_.data(), greeting_.size()};
    const ssize_t sent = put({&all, 1});
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (!would_block(errno)) end(std::strerror(errno));
      return false;
    }
    greeting_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

bool Link::send_some() {
  if (state_ == State::kConnecting) connected();
  if (state_ == State::kEnded || state_ == State::kPushedOut || !send_greeting()) return false;
  if (state_ != State::kOpen) return false;
  bool any = false;
  while (!queue_.empty()) {
    std::array<iovec, 2 * kPartsAtOnce> pieces;
    std::size_t count = 0, wanted = 0, parts = 0;
    for (Queued& each : queue_) {
      if (parts++ == kPartsAtOnce) break;
      if (each.total == 0) continue;
      if (each.sent < sizeof each.header)
        pieces[count++] = {reinterpret_cast<char*>(&each.header) + each.sent, sizeof each.header - each.sent};
      const std::size_t done = each.sent < sizeof each.header ? 0 : each.sent - sizeof each.header;
      if (each.header.length > done)
        pieces[count++] = {const_cast<std::byte*>(each.data) + done, each.header.length - done};
      wanted += each.total - each.sent;
    }
    ssize_t sent = 0;
    if (wanted != 0) {
      sent = put({pieces.data(), count});
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        // Data that the other side sent before it ended the connection is still to be read: its end is found
        // there.
        if (!would_block(errno)) fail_queued("the connection broke");
        return any;
      }
    }
    any = true;
    auto left = static_cast<std::size_t>(sent);
    while (!queue_.empty()) {
      Queued& first = queue_.front();
      const std::size_t some = std::min(left, first.total - first.sent);
      first.sent += some;
      left -= some;
      if (first.sent < first.total) break;
      if (--first.request->parts == 0) first.request->done = true;
      queue_.pop_front();
    }
    if (static_cast<std::size_t>(sent) < wanted) return true;
  }
  return any;
}

void Link::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return end(std::strerror(error));
  // While it is being made there is no error either.
  sockaddr_storage to;
  size = sizeof to;
  if (getpeername(descriptor(), reinterpret_cast<sockaddr*>(&to), &size) != 0) return;
  state_ = State::kGreeting;
  begin_tls();
}

std::string Link::proof(bool accepts, const std::string& accepting, const std::string& connecting) const {
  const MailboxId& target = accepted ? proof_.own : other;
  const MailboxId& origin = accepted ? other : proof_.own;
  // The mailbox's own identity is told only to the job's processes.
  return coordination::authentication_code(
      proof_.secret + target, "lockstep data 1",
      fmt::format("{} {} {} {} {}{}", accepts ? "accepts" : "connects", origin, number, accepting, connecting,
                  tls_ != nullptr ? " " + to_hex(tls_->binding()) : ""));
}

/// Goes on with the greeting; whether there may be more of it in the buffer.
bool Link::shake_hands() {
  const std::size_t there = until_ - from_;
  const auto* const here = reinterpret_cast<const char*>(buffer_.data() + from_);
  if (!accepted && state_ == State::kGreeting) {
    Challenge challenge;
    if (there < sizeof challenge) return false;
    std::memcpy(&challenge, here, sizeof challenge);
    from_ += sizeof challenge;
    if (std::memcmp(challenge.magic, kMagic.data(), sizeof challenge.magic) != 0) {
      end("what listens at its address is not a process of Lockstep, or of another version");
      return false;
    }
    drawn_.assign(challenge.nonce, kNonce);
    Hello hello;
    std::memcpy(hello.from, proof_.own.data(), kId);
    hello.number = static_cast<std::uint32_t>(number);
    std::memcpy(hello.nonce, nonce_.data(), kNonce);
    std::memcpy(hello.proof, proof(false, drawn_, nonce_).data(), kProof);
    greeting_ += bytes_of(hello);
    state_ = State::kProving;
    send_some();
  } else if (!accepted) {
    if (there < kProof) return false;
    const std::string theirs(here, kProof);
    from_ += kProof;
    if (!coordination::same_code(theirs, proof(true, drawn_, nonce_))) {
      end("the process at its address does not know this job's secret");
      return false;
    }
    state_ = State::kOpen;
    if (!owner_.proved(*this)) end("it is not wanted");
  } else {
    Hello hello;
    if (there < sizeof hello) return false;
    std::memcpy(&hello, here, sizeof hello);
    from_ += sizeof hello;
    other.assign(hello.from, kId);
    number = static_cast<int>(hello.number);
    drawn_.assign(hello.nonce, kNonce);
    if (!coordination::same_code(std::string(hello.proof, kProof), proof(false, nonce_, drawn_))) {
      end("it does not know this job's secret");
      return false;
    }
    greeting_ += proof(true, nonce_, drawn_);
    state_ = State::kOpen;
    if (!owner_.proved(*this)) end("it is not wanted");
    send_some();
  }
  return state_ != State::kEnded;
}

bool Link::read_some() {
  if (state_ == State::kConnecting) connected();
  if (state_ == State::kEnded || state_ == State::kPushedOut || state_ == State::kConnecting || held_)
    return false;
  if (tls_ != nullptr) return read_through_tls();
  std::array<iovec, 2> pieces;
  std::size_t count = 0, direct = 0;
  if (in_part_ && from_ == until_ && incoming_->into != nullptr) {
    direct = missing_;
    pieces[count++] = {incoming_->into + part_.offset + (part_.length - missing_), direct};
  }
  if (from_ == until_) from_ = until_ = 0;
  pieces[count++] = {buffer_.data() + until_, buffer_.size() - until_};
  ssize_t got;
  while ((got = readv(descriptor(), pieces.data(), static_cast<int>(count))) < 0 && errno == EINTR) {
  }
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    end_of_reading(got, errno);
    return true;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t in_place = std::min(bytes, direct);
  until_ += bytes - in_place;
  if (in_place != 0) arrived(in_place);
  parse();
  return true;
}

bool Link::read_through_tls() {
  bool any = false;
  for (std::size_t record = 0; record < kRecordsAtOnce && !held_ && !has_ended(); ++record) {
    if (record != 0 && !tls_->may_have_more()) break;  // the socket will say when there is
    const bool direct = in_part_ && from_ == until_ && incoming_->into != nullptr;
    if (from_ == until_) from_ = until_ = 0;
    std::byte* const into =
        direct ? incoming_->into + part_.offset + (part_.length - missing_) : buffer_.data() + until_;
    const bool was_open = tls_->is_open();
    const ssize_t got = tls_->read(into, direct ? missing_ : buffer_.size() - until_);
    const int error = errno;
    if (!was_open && tls_->is_open()) send_some();
    if (got < 0 && error == EAGAIN) break;
    any = true;
    if (got <= 0) {
      end_of_reading(got, error);
      break;
    }
    const auto bytes = static_cast<std::size_t>(got);
    if (direct) {
      arrived(bytes);
    } else {
      until_ += bytes;
      parse();
    }
  }
  return any;
}

void Link::end_of_reading(ssize_t got, int error) {
  const bool spoke = accepted || state_ != State::kGreeting || until_ != 0 || (tls_ && tls_->has_heard());
  if (got == 0) {
    end("the other side ended the connection");
  } else if (error != EPROTO || tls_ == nullptr) {
    end(std::strerror(error));
  } else if (state_ == State::kOpen) {
    has_bad_data_ = true;
    end(fmt::format(
        "{}: the data was changed on the way; check the network cards, and what is between the hosts",
        tls_->trouble()));
  } else {
    end(fmt::format("the TLS handshake with it failed: {}", tls_->trouble()));
  }
  if (spoke) {
    if (got == 0) other_side_ended_ = Clock::now();
    return;
  }
  state_ = State::kPushedOut;
  alone_.reset();
  tls_.reset();
  socket_ = FileDescriptor();
}

bool Link::go_on() {
  if (!held_ || state_ != State::kOpen) return false;
  held_ = false;
  if (!begin_part()) return false;
  parse();
  return true;
}

/// Uses what is in the buffer.
void Link::parse() {
  while (state_ == State::kGreeting || state_ == State::kProving) {
    if (!shake_hands()) break;
  }
  while (state_ == State::kOpen && !held_) {
    if (in_part_) {
      const std::size_t some = std::min(missing_, until_ - from_);
      if (some == 0) break;
      if (incoming_->into != nullptr)
        std::memcpy(incoming_->into + part_.offset + (part_.length - missing_), buffer_.data() + from_, some);
      from_ += some;
      arrived(some);
    } else {
      if (until_ - from_ < sizeof part_) break;
      std::memcpy(&part_, buffer_.data() + from_, sizeof part_);
      from_ += sizeof part_;
      begin_part();
    }
  }
  if (from_ != 0 && buffer_.size() - until_ < sizeof part_ + sizeof(Hello)) {
    std::memmove(buffer_.data(), buffer_.data() + from_, until_ - from_);
    until_ -= from_;
    from_ = 0;
  }
}

bool Link::begin_part() {
  incoming_ = owner_.begins(*this, part_);
  held_ = incoming_ == nullptr;
  if (held_) return false;
  in_part_ = true;
  missing_ = part_.length;
  if (missing_ == 0) arrived(0);
  return true;
}

void Link::arrived(std::size_t bytes) {
  missing_ -= bytes;
  incoming_->arrived += bytes;
  if (missing_ != 0) return;
  in_part_ = false;
  Incoming& message = *std::exchange(incoming_, nullptr);
  if (message.done()) owner_.has_arrived(message);
}

void Link::fail_queued(const char* error) {
  for (const Queued& each : queue_) {
    each.request->error = error;
    if (--each.request->parts == 0) each.request->done = true;
  }
  queue_.clear();
}

void Link::end(std::string trouble) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  trouble_ = std::move(trouble);
  shutdown(descriptor(), SHUT_RDWR);
}

void Link::forget(const Incoming* message) {
  if (incoming_ != message) return;
  incoming_ = nullptr;
  in_part_ = false;
}

void Link::call_again(FileDescriptor socket) {
  alone_.reset();
  socket_ = std::move(socket);
  alone_.emplace(socket_.get());
  state_ = State::kConnecting;
}

bool Link::is_acknowledged() const {
  int waiting = 0;
  return state_ != State::kOpen || ioctl(descriptor(), SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

}  // namespace lockstep::collectives
