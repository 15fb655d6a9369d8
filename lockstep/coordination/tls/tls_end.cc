// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls_end.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "lockstep/base/fail.h"

namespace lockstep::coordination {
namespace {

/// Whether the alert says that the other side does not accept a certificate.
bool refuses_certificate(int alert) {
  switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string last_tls_error(const char* otherwise) {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text != nullptr ? text : otherwise;
}

TlsEnd::TlsEnd(const TlsContext& context, bool accepts, BIO* in, BIO* out)
    : context_(context), ssl_(SSL_new(context.context.get())) {
  SSL_set_bio(ssl(), in, out);
  SSL_set_ex_data(ssl(), own_data(), this);
  // With a key, no certificate is trusted, and none is shown.
  SSL_set_verify(ssl(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_refused);
  if (accepts) {
    SSL_set_accept_state(ssl());
  } else {
    SSL_set_connect_state(ssl());
  }
}

void TlsEnd::shake_hands() {
  ERR_clear_error();
  if (const int done = SSL_do_handshake(ssl()); done <= 0) return end(done);
  was_open_ = true;
}

std::string TlsEnd::binding() const {
  unsigned char bytes[32];
  constexpr char kLabel[] = "EXPORTER-Channel-Binding";
  if (SSL_export_keying_material(ssl(), bytes, sizeof bytes, kLabel, sizeof kLabel - 1, nullptr, 0, 1) != 1)
    fail("TLS gives no channel binding for this connection: {}", last_tls_error("no reason is given"));
  return std::string(reinterpret_cast<char*>(bytes), sizeof bytes);
}

bool TlsEnd::names(const std::string& host) const {
  const openssl::Certificate theirs(SSL_get1_peer_certificate(ssl()));
  if (!theirs) return false;
  const bool good = X509_check_ip_asc(theirs.get(), host.c_str(), 0) == 1 ||
                    X509_check_host(theirs.get(), host.data(), host.size(), 0, nullptr) == 1;
  ERR_clear_error();
  return good;
}

int TlsEnd::own_data() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

/// OpenSSL calls it for each certificate of the other side's chain.
int TlsEnd::note_refused(int good, X509_STORE_CTX* context) {
  if (good == 1) return 1;
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* self = static_cast<TlsEnd*>(SSL_get_ex_data(ssl, own_data()));
  if (!self->context_.key.empty()) {
    self->trouble_ = "the other side has a certificate, but this process has none";
    return 0;
  }
  const X509* wrong = X509_STORE_CTX_get_current_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  std::string why = X509_verify_cert_error_string(error);
  if (wrong != nullptr && error == X509_V_ERR_CERT_HAS_EXPIRED)
    why = "it has expired: it was valid until " + openssl::time_text(X509_get0_notAfter(wrong));
  if (wrong != nullptr && error == X509_V_ERR_CERT_NOT_YET_VALID)
    why = "it is not valid before " + openssl::time_text(X509_get0_notBefore(wrong));
  self->trouble_ = fmt::format(
      "the other side's certificate ({}) is not accepted by the authority in '{}': {}",
      wrong != nullptr ? openssl::subject_of(wrong) : "without a name", self->context_.files.authority, why);
  return 0;
}

void TlsEnd::end(int result) {
  const int error = SSL_get_error(ssl(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
  over_ = true;
  if (error == SSL_ERROR_ZERO_RETURN || !trouble_.empty()) return;
  const unsigned long code = ERR_peek_error();
  const int alert = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET : -1;
  trouble_ = why(alert >= 0 && alert < 256 ? alert : -1);
  ERR_clear_error();
}

/// For OpenSSL's error, which is this alert of the other side, or -1.
std::string TlsEnd::why(int alert) const {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const bool has_key = !context_.key.empty();
  if (alert >= 0) {
    const char* const text = SSL_alert_desc_string_long(alert);
    if (has_key && !was_open_)
      return fmt::format("the other side does not know this job's secret, or has certificates ({})", text);
    return refuses_certificate(alert)
               ? fmt::format("the other side does not accept this process's certificate in '{}': {}",
                             context_.files.certificate, text)
               : fmt::format("the other side broke TLS off: {}", text);
  }
  if (has_key && reason == SSL_R_BINDER_DOES_NOT_VERIFY)
    return "the other side does not know this job's secret";
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "the other side has shown no certificate";
  if (!was_open_)
    return fmt::format("the other side does not speak TLS 1.3 ({})", last_tls_error("no reason is given"));
  return fmt::format("the received data is not what the other side sent ({})",
                     last_tls_error("no reason is given"));
}

}  // namespace lockstep::coordination
