// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/collectives/connection.h"
#include "lockstep/coordination/identity/proof.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMaxFrame = sizeof(Header) + kMaxText;

using Length = std::uint32_t;

/// A stream of frames: a length, and this number of bytes. The first frames are:
///   accepting side    a random number
///   connecting side   its number, the called process's, a random number, its proof
///   accepting side    its proof
/// After that, messages in both directions: a header and a text. With TLS everything is sent through it.
class TcpConnection : public Connection {
 public:
  TcpConnection(FileDescriptor socket, Acquaintance acquaintance)
      : Connection(std::move(socket), acquaintance.process, acquaintance.process < 0),
        acquaintance_(std::move(acquaintance)),
        nonce_(random_hex(16)) {
    if (!acquaintance_.tls) {
      if (accepted) write_frame(nonce_);
      return;
    }
    tls_ = accepted ? acquaintance_.tls->accept() : acquaintance_.tls->connect();
    send_what_tls_has();
  }

  void send(const Message& message, int) override {
    std::string frame(reinterpret_cast<const char*>(&message.header), sizeof message.header);
    frame.append(message.text, 0, kMaxText);
    if (proved_) return write_frame(frame);
    early_.push_back(std::move(frame));
  }

  void send_kept() override {
    while (!out_.empty()) {
      const ssize_t sent = ::send(descriptor(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      const bool later = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM);
      if (later) return;
      out_.erase(0, sent < 0 ? out_.size() : static_cast<std::size_t>(sent));
    }
  }

  bool has_kept() const override { return !out_.empty(); }
  bool is_proved() const override { return proved_; }

  Heard hear(Message& message, FileDescriptor&) override {
    while (true) {
      std::optional<std::string> frame;
      if (!next_frame(frame)) return Heard::kEnd;
      if (!frame) {
        const Heard more = read_more();
        if (more != Heard::kMessage) return more;
      } else if (!proved_) {
        if (!shake_hands(*frame)) return Heard::kEnd;
      } else {
        const auto wrong = read_message(*frame, message);
        if (!wrong) return Heard::kMessage;
        trouble_ = *wrong;
        return Heard::kEnd;
      }
    }
  }

 private:
  void write_frame(const std::string& frame) {
    const auto length = static_cast<Length>(frame.size());
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += frame;
    if (tls_) {
      tls_->write(bytes);
      return send_what_tls_has();
    }
    out_ += bytes;
    send_kept();
  }

  void send_what_tls_has() {
    out_ += tls_->to_send();
    send_kept();
  }

  /// False if the other side announces a frame that is too long.
  bool next_frame(std::optional<std::string>& frame) {
    Length length;
    if (in_.size() < sizeof length) return true;
    std::memcpy(&length, in_.data(), sizeof length);
    if (length > (proved_ ? kMaxFrame : kMaxGreeting)) {
      if (proved_) trouble_ = fmt::format("expected a message of up to {} bytes, got {}", kMaxFrame, length);
      return false;
    }
    if (in_.size() < sizeof length + length) return true;
    frame = in_.substr(sizeof length, length);
    in_.erase(0, sizeof length + length);
    return true;
  }

  /// Returns kMessage if some bytes have arrived, which may be less than a message.
  Heard read_more() {
    if (tls_ && tls_->is_over()) return Heard::kEnd;
    char bytes[16 << 10];
    ssize_t got;
    while ((got = recv(descriptor(), bytes, sizeof bytes, MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    if (got < 0 && errno == EAGAIN) return Heard::kNothing;
    if (got <= 0) return Heard::kEnd;
    const std::string_view some(bytes, static_cast<std::size_t>(got));
    if (tls_) {
      decipher(some);
    } else {
      in_ += some;
    }
    return Heard::kMessage;
  }

  void decipher(std::string_view some) {
    const bool was_open = tls_->is_open();
    tls_->receive(some);
    in_ += tls_->read();
    send_what_tls_has();
    if (!proved_) trouble_ = tls_->trouble();
    if (!was_open && tls_->is_open() && accepted) write_frame(nonce_);
  }

  /// The proof to the other side, which has drawn `drawn`, that `from` knows the key.
  std::string proof(bool accepts, int from, int to, const std::string& own, const std::string& drawn) const {
    return to_hex(coordination::authentication_code(
        acquaintance_.key, "lockstep peers 1",
        fmt::format("{} {} {} {} {}{}", accepts ? "accepts" : "connects", from, to, own, drawn,
                    tls_ ? " " + to_hex(tls_->binding()) : "")));
  }

  /// The next step of the greeting; false if the other side cannot prove its identity.
  bool shake_hands(const std::string& frame) {
    if (accepted) {
      int from = -1, to = -1;
      std::string drawn, proved;
      std::istringstream(frame) >> from >> to >> drawn >> proved;
      if (from < 0 || to != acquaintance_.self) return false;
      if (!coordination::same_code(proved, proof(false, from, to, drawn, nonce_))) return false;
      process = from;
      write_frame(proof(true, to, from, nonce_, drawn));
    } else if (drawn_.empty()) {
      drawn_ = frame;
      const int from = acquaintance_.self, to = process;
      write_frame(fmt::format("{} {} {} {}", from, to, nonce_, proof(false, from, to, nonce_, drawn_)));
      return !frame.empty();
    } else if (!coordination::same_code(frame, proof(true, process, acquaintance_.self, drawn_, nonce_))) {
      trouble_ = "the process at its address does not know this job's secret";
      return false;
    }
    proved_ = true;
    for (const std::string& message : early_) write_frame(message);
    early_.clear();
    return true;
  }

  const Acquaintance acquaintance_;
  const std::string nonce_;                        ///< Drawn here.
  std::string drawn_;                              ///< There.
  bool proved_ = false;                            ///< Both know the key.
  std::vector<std::string> early_;                 ///< To be sent when that is known.
  std::unique_ptr<coordination::TlsSession> tls_;  ///< Null: plain text.
  std::string in_, out_;                           ///< In plain text; as it goes over the socket.
};

}  // namespace

std::shared_ptr<Connection> tcp_connection(FileDescriptor socket, Acquaintance acquaintance) {
  return std::make_shared<TcpConnection>(std::move(socket), std::move(acquaintance));
}

}  // namespace lockstep::collectives
