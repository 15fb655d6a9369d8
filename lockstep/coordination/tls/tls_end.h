// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parts that the ends of TLS connections have in common; only for tls.cc and tls_stream.cc.

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/tls/openssl.h"
#include "lockstep/coordination/tls/tls_stream.h"

namespace lockstep::coordination {

/// State that all connections of a Tls share.
struct TlsContext {
  openssl::Context context;
  TlsFiles files;   ///< not given: both sides have the key
  std::string key;  ///< empty: both sides have certificates
  std::uint64_t records_of_a_key = 0;
};

/// OpenSSL's last error, or `otherwise`.
std::string last_tls_error(const char* otherwise);

/// The connection to OpenSSL, and why it has ended.
class TlsEnd {
 public:
  /// `in` and `out` (which may be the same) are its own from now on. `context` must outlive it.
  TlsEnd(const TlsContext& context, bool accepts, BIO* in, BIO* out);
  TlsEnd(const TlsEnd&) = delete;
  TlsEnd& operator=(const TlsEnd&) = delete;

  SSL* ssl() const { return ssl_.get(); }
  bool is_open() const { return SSL_is_init_finished(ssl()) == 1; }
  bool is_over() const { return over_; }
  const std::string& trouble() const { return trouble_; }
  void shake_hands();

  /// A call of OpenSSL gave `result`: it waits for bytes, or the connection is over. The errors of the thread
  /// must have been cleared before the call.
  void end(int result);

  std::string binding() const;
  bool names(const std::string& host) const;

 private:
  static int own_data();
  static int note_refused(int good, X509_STORE_CTX* context);
  std::string why(int alert) const;

  const TlsContext& context_;
  const openssl::Session ssl_;
  bool over_ = false, was_open_ = false;  ///< OpenSSL says of a connection that is over that it is not open
  std::string trouble_;
};

std::unique_ptr<TlsStream> tls_stream(const TlsContext& context, bool accepts, int socket);

}  // namespace lockstep::coordination
