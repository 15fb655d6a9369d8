#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity.h"

namespace lockstep::coordination {

/// One end of a TLS connection, apart from the socket: whoever has the socket hands over what comes and takes
/// what is to be sent, whenever it can. Nothing blocks and nothing throws. To be used by one thread at a
/// time.
class TlsSession {
 public:
  virtual ~TlsSession() = default;

  /// Bytes have come from the other side.
  virtual void receive(std::string_view bytes) = 0;

  /// Takes out what is to be sent to the other side, also after `receive` and when it is over.
  virtual std::string to_send() = 0;

  /// Whether the handshake is done here: the other side has shown a certificate of the authority. What is
  /// written before is lost.
  virtual bool is_open() const = 0;

  virtual void write(std::string_view plain) = 0;

  /// Takes out what the other side has written.
  virtual std::string read() = 0;

  /// Nothing more will come.
  virtual bool is_over() const = 0;

  /// Why it is over, in a clause that may name this process's files; empty if the other side has ended it
  /// in order.
  virtual const std::string& trouble() const = 0;

  /// 32 bytes that only the two ends of this connection have (RFC 9266, tls-exporter); only after it is open.
  /// A man in the middle has two different values.
  virtual std::string binding() const = 0;

  /// Whether the other side's certificate names the host, by name or address; only once it is open.
  virtual bool names(const std::string& host) const = 0;
};

/// TLS 1.3 with certificates of one authority on both sides. Names in certificates are not compared with
/// anything, and a certificate may be for any purpose. May be used by any threads.
class Tls {
 public:
  /// Throws as read_certificates.
  static std::shared_ptr<const Tls> load(const TlsFiles& files);

  virtual ~Tls() = default;

  virtual std::unique_ptr<TlsSession> connect() const = 0;
  virtual std::unique_ptr<TlsSession> accept() const = 0;
};

}  // namespace lockstep::coordination
