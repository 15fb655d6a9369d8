// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity/identity.h"

namespace lockstep::coordination {

class TlsStream;

/// One end of a TLS connection, without its socket: the owner of the socket passes received bytes to it and
/// sends the bytes that it returns. Nothing blocks and nothing throws. Use it from one thread at a time.
class TlsSession {
 public:
  virtual ~TlsSession() = default;

  /// Passes bytes received from the other side.
  virtual void receive(std::string_view bytes) = 0;

  /// Returns the bytes to send to the other side; also call it after `receive` and when the connection is
  /// over.
  virtual std::string to_send() = 0;

  /// Whether the handshake is done on this side: the other side has presented a certificate of the authority.
  /// Data written before is lost.
  virtual bool is_open() const = 0;

  virtual void write(std::string_view plain) = 0;

  /// Returns the data that the other side has written.
  virtual std::string read() = 0;

  /// Whether no more data will come.
  virtual bool is_over() const = 0;

  /// Why it is over, as a clause that may contain the names of this process's files; empty if the other side
  /// has closed it in order.
  virtual const std::string& trouble() const = 0;

  /// 32 bytes that only the two ends of this connection have (RFC 9266, tls-exporter); only after it is open.
  /// A man in the middle gets different values on the two sides.
  virtual std::string binding() const = 0;

  /// Whether the other side's certificate contains the host, by name or address; only after it is open.
  virtual bool names(const std::string& host) const = 0;
};

/// After so many records in one direction their key is replaced: AES-GCM allows some 2^24 (RFC 8446, 5.5).
inline constexpr std::uint64_t kRecordsOfAKey = std::uint64_t{1} << 23;

/// TLS 1.3 whose two sides prove to each other who they are. Thread-safe. It must outlive its sessions and
/// streams.
class Tls {
 public:
  /// With certificates of one authority on both sides. Names in certificates are not checked, and a
  /// certificate may have any purpose. Throws as read_certificates does.
  static std::shared_ptr<const Tls> load(const TlsFiles& files);

  /// Both sides prove by a key that is derived from the secret, which must not be empty, that they know it;
  /// there are no certificates. Who learns the secret later cannot read what was said before. Throws Error if
  /// OpenSSL cannot do it.
  static std::shared_ptr<const Tls> from_secret(std::string_view secret,
                                                std::uint64_t records_of_a_key = kRecordsOfAKey);

  virtual ~Tls() = default;

  virtual std::unique_ptr<TlsSession> connect() const = 0;
  virtual std::unique_ptr<TlsSession> accept() const = 0;

  /// The same for a stream socket that is connected and does not block, which must outlive the stream.
  virtual std::unique_ptr<TlsStream> connect(int socket) const = 0;
  virtual std::unique_ptr<TlsStream> accept(int socket) const = 0;
};

}  // namespace lockstep::coordination
