// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/coordination/tls/tls_end.h"

namespace lockstep::coordination {
namespace {

/// The plain bytes of a full record.
constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;

/// Pieces that are small go into one record together.
constexpr std::size_t kTogether = 4 << 10;

/// The bytes after which one call stops writing, so that its caller comes to read, too.
constexpr std::size_t kAtATime = 16 * kRecord;

/// The records that are enciphered before one call of the system sends them. With more of them the other side
/// waits longer for the first.
constexpr std::size_t kRecordsSentAtOnce = 4;

/// The bytes that one call of the system reads beyond those that OpenSSL asks for: the next records.
constexpr std::size_t kAhead = 4 * (kRecord + 256);

class Stream : public TlsStream {
 public:
  Stream(const TlsContext& context, bool accepts, int socket)
      : socket_(socket),
        records_of_a_key_(context.records_of_a_key),
        bio_(own_bio()),
        end_(context, accepts, bio_, bio_) {
    SSL_clear_mode(end_.ssl(), SSL_MODE_RELEASE_BUFFERS);  // its buffers are used again and again
    end_.shake_hands();
    has_word_ = end_.is_over();
  }

  ssize_t read(void* into, std::size_t most) override {
    has_word_ = false;
    if (!is_open() && !end_.is_over()) end_.shake_hands();
    if (!is_open() || end_.is_over()) return why_nothing();
    ERR_clear_error();
    std::size_t got = 0;
    const int done = SSL_read_ex(end_.ssl(), into, most, &got);
    if (done == 1) return static_cast<ssize_t>(got);
    end_.end(done);
    return why_nothing();
  }

  ssize_t write(std::span<const iovec> pieces) override {
    if (!send_kept() || !is_open() || end_.is_over()) {
      errno = send_error_ != 0 ? send_error_ : EAGAIN;  // if TLS is over, reading says why
      return -1;
    }
    std::size_t sent = std::exchange(taken_, 0), skip = sent;
    while (skip != 0 && !pieces.empty() && skip >= pieces.front().iov_len) {
      skip -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    while (!pieces.empty() && sent < kAtATime) {
      const std::size_t taken = encipher(pieces, skip);
      const bool more = !pieces.empty() && sent + taken < kAtATime;
      if (!send_kept(more)) {
        taken_ = taken;
        break;
      }
      sent += taken;
      if (end_.is_over()) break;
    }
    if (sent != 0) return static_cast<ssize_t>(sent);
    errno = send_error_ != 0 ? send_error_ : EAGAIN;  // if TLS is over, reading says why
    return -1;
  }

  bool has_kept() const override { return gone_ < kept_.size(); }

  bool send_kept() override { return send_kept(false); }

  bool may_have_more() const override { return has_word_ || from_ != until_ || SSL_pending(end_.ssl()) > 0; }
  bool is_open() const override { return end_.is_open(); }
  bool has_heard() const override { return heard_; }
  const std::string& trouble() const override { return end_.trouble(); }
  std::string binding() const override { return end_.binding(); }

 private:
  /// Keeps records of the pieces, without their first `skip` bytes, and takes them away. Returns the number
  /// of their bytes; fewer if TLS is over.
  std::size_t encipher(std::span<const iovec>& pieces, std::size_t& skip) {
    std::size_t taken = 0;
    gathers_ = true;
    for (std::size_t i = 0; i < kRecordsSentAtOnce && !pieces.empty() && !end_.is_over(); ++i)
      taken += write_record(pieces, skip);
    gathers_ = false;
    return taken;
  }

  /// Writes the first of the pieces, without their first `skip` bytes, as one record, and takes them away.
  /// Returns the number of bytes; 0 if TLS cannot.
  std::size_t write_record(std::span<const iovec>& pieces, std::size_t& skip) {
    const auto* first = static_cast<const char*>(pieces.front().iov_base) + skip;
    std::size_t bytes = std::min(pieces.front().iov_len - skip, kRecord);
    std::array<char, kTogether> together;
    std::size_t count = 0, gathered = 0;
    for (std::size_t from = skip; count < pieces.size(); ++count, from = 0) {
      const std::size_t all = pieces[count].iov_len - from;
      if (all > together.size() - gathered) break;
      std::memcpy(together.data() + gathered, static_cast<const char*>(pieces[count].iov_base) + from, all);
      gathered += all;
    }
    if (count > 1) {
      first = together.data();
      bytes = gathered;
      skip = 0;
      pieces = pieces.subspan(count);
    } else if (skip += bytes; skip == pieces.front().iov_len) {
      skip = 0;
      pieces = pieces.subspan(1);
    }
    if (bytes == 0) return 0;
    if (++records_ % records_of_a_key_ == 0) SSL_key_update(end_.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
    ERR_clear_error();
    std::size_t done = 0;
    const int good = SSL_write_ex(end_.ssl(), first, bytes, &done);
    if (good == 1) return bytes;
    end_.end(good);
    has_word_ = true;
    return 0;
  }

  /// For a read that gave nothing.
  ssize_t why_nothing() {
    if (read_error_ != 0) {
      errno = read_error_;
      return -1;
    }
    if (ended_ || (end_.is_over() && trouble().empty())) return 0;
    errno = end_.is_over() ? EPROTO : EAGAIN;
    return -1;
  }

  /// Sends what there is room for, and returns how much; all of it is gone if the connection broke.
  std::size_t send(const char* bytes, std::size_t size, bool more) {
    if (send_error_ != 0) return size;
    ssize_t sent;
    while ((sent = ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0))) < 0 &&
           errno == EINTR) {
    }
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return 0;
    send_error_ = errno;
    return size;
  }

  /// Sends what is kept, as far as there is room, and returns whether none is left. `more`: further records
  /// follow at once.
  bool send_kept(bool more) {
    while (has_kept()) {
      const std::size_t some = send(kept_.data() + gone_, kept_.size() - gone_, more);
      if (some == 0) return false;
      gone_ += some;
    }
    kept_.clear();
    gone_ = 0;
    return send_error_ == 0;
  }

  /// OpenSSL writes a record. It is always taken, so that reading, which does not depend on it, goes on.
  void put(const char* bytes, std::size_t size) {
    kept_.append(bytes, size);
    if (!gathers_) send_kept(false);
  }

  /// OpenSSL reads some of a record.
  int take(char* into, std::size_t most) {
    if (from_ == until_) {
      iovec pieces[2] = {{into, most}, {ahead_.data(), ahead_.size()}};
      ssize_t got;
      while ((got = readv(socket_, pieces, 2)) < 0 && errno == EINTR) {
      }
      if (got <= 0) {
        ended_ = got == 0;
        if (got < 0 && errno != EAGAIN) read_error_ = errno;
        if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio_);
        return static_cast<int>(got);
      }
      heard_ = true;
      const auto bytes = static_cast<std::size_t>(got);
      from_ = 0;
      until_ = bytes - std::min(bytes, most);
      return static_cast<int>(bytes - until_);
    }
    const std::size_t some = std::min(most, until_ - from_);
    std::memcpy(into, ahead_.data() + from_, some);
    from_ += some;
    return static_cast<int>(some);
  }

  static Stream& of(BIO* bio) { return *static_cast<Stream*>(BIO_get_data(bio)); }

  BIO* own_bio() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep socket");
      BIO_meth_set_write(made, [](BIO* bio, const char* bytes, int size) {
        BIO_clear_retry_flags(bio);
        of(bio).put(bytes, static_cast<std::size_t>(size));
        return size;
      });
      BIO_meth_set_read(made, [](BIO* bio, char* into, int most) {
        BIO_clear_retry_flags(bio);
        return of(bio).take(into, static_cast<std::size_t>(most));
      });
      BIO_meth_set_ctrl(made, [](BIO*, int what, long, void*) -> long { return what == BIO_CTRL_FLUSH; });
      return made;
    }();
    BIO* const bio = BIO_new(method);
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    return bio;
  }

  const int socket_;
  const std::uint64_t records_of_a_key_;
  std::uint64_t records_ = 0;
  std::string kept_;       ///< records that are to be sent
  std::size_t gone_ = 0;   ///< the bytes of `kept_` that were sent
  std::size_t taken_ = 0;  ///< of what is to be written: enciphered, and not counted yet
  bool gathers_ = false;   ///< further records are written before these are sent
  int send_error_ = 0, read_error_ = 0;
  bool ended_ = false, heard_ = false;
  bool has_word_ = false;  ///< TLS is over, and no read has said why
  std::array<char, kAhead> ahead_;
  std::size_t from_ = 0, until_ = 0;  ///< what is ahead and was not taken yet
  BIO* const bio_;                    ///< of end_
  TlsEnd end_;                        ///< last: it uses the others
};

}  // namespace

std::unique_ptr<TlsStream> tls_stream(const TlsContext& context, bool accepts, int socket) {
  return std::make_unique<Stream>(context, accepts, socket);
}

}  // namespace lockstep::coordination
