// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/coordination/certificates.h"
#include "lockstep/coordination/openssl.h"

namespace lockstep::coordination {
namespace {

/// OpenSSL's last error, or `otherwise`.
std::string last_error(const char* otherwise) {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text != nullptr ? text : otherwise;
}

class Session : public TlsSession {
 public:
  Session(SSL_CTX* context, const TlsFiles& files, bool accepts) : files_(files), ssl_(SSL_new(context)) {
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_ex_data(ssl_.get(), own_data(), this);
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_refused);
    if (accepts) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
    }
    shake_hands();
  }

  void receive(std::string_view bytes) override {
    if (over_) return;
    BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    if (!is_open()) shake_hands();
    if (is_open()) decipher();
  }

  std::string to_send() override {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    std::string all(bytes, static_cast<std::size_t>(size));
    BIO_reset(out_);
    return all;
  }

  bool is_open() const override { return SSL_is_init_finished(ssl_.get()) == 1; }

  void write(std::string_view plain) override {
    if (over_ || !is_open()) return;
    while (!plain.empty()) {
      ERR_clear_error();
      const int some = static_cast<int>(std::min<std::size_t>(plain.size(), INT_MAX));
      const int done = SSL_write(ssl_.get(), plain.data(), some);
      if (done <= 0) return end(done);
      plain.remove_prefix(static_cast<std::size_t>(done));
    }
  }

  std::string read() override { return std::exchange(plain_, {}); }
  bool is_over() const override { return over_; }
  const std::string& trouble() const override { return trouble_; }

  std::string binding() const override {
    unsigned char bytes[32];
    constexpr char kLabel[] = "EXPORTER-Channel-Binding";
    if (SSL_export_keying_material(ssl_.get(), bytes, sizeof bytes, kLabel, sizeof kLabel - 1, nullptr, 0,
                                   1) != 1)
      fail("TLS has no binding for this connection: {}", last_error("no reason is given"));
    return std::string(reinterpret_cast<char*>(bytes), sizeof bytes);
  }

  bool names(const std::string& host) const override {
    const openssl::Certificate theirs(SSL_get1_peer_certificate(ssl_.get()));
    if (!theirs) return false;
    const bool good = X509_check_ip_asc(theirs.get(), host.c_str(), 0) == 1 ||
                      X509_check_host(theirs.get(), host.data(), host.size(), 0, nullptr) == 1;
    ERR_clear_error();
    return good;
  }

 private:
  static int own_data() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
  }

  /// OpenSSL calls it for each certificate of the other side's chain.
  static int note_refused(int good, X509_STORE_CTX* context) {
    if (good == 1) return 1;
    auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<Session*>(SSL_get_ex_data(ssl, own_data()));
    const X509* wrong = X509_STORE_CTX_get_current_cert(context);
    const int error = X509_STORE_CTX_get_error(context);
    std::string why = X509_verify_cert_error_string(error);
    if (wrong != nullptr && error == X509_V_ERR_CERT_HAS_EXPIRED)
      why = "it has expired: it was valid until " + openssl::time_text(X509_get0_notAfter(wrong));
    if (wrong != nullptr && error == X509_V_ERR_CERT_NOT_YET_VALID)
      why = "it is not valid before " + openssl::time_text(X509_get0_notBefore(wrong));
    self->trouble_ = fmt::format(
        "the other side's certificate ({}) is not accepted by the authority in '{}': {}",
        wrong != nullptr ? openssl::subject_of(wrong) : "without a name", self->files_.authority, why);
    return 0;
  }

  void shake_hands() {
    ERR_clear_error();
    if (const int done = SSL_do_handshake(ssl_.get()); done <= 0) end(done);
  }

  void decipher() {
    char bytes[16 << 10];
    while (!over_) {
      ERR_clear_error();
      const int got = SSL_read(ssl_.get(), bytes, sizeof bytes);
      if (got <= 0) return end(got);
      plain_.append(bytes, static_cast<std::size_t>(got));
    }
  }

  /// A call of OpenSSL gave `result`: it waits for bytes, or the connection is over.
  void end(int result) {
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
    over_ = true;
    if (error == SSL_ERROR_ZERO_RETURN || !trouble_.empty()) return;
    const unsigned long code = ERR_peek_error();
    const int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && alert >= 0 && alert < 256) {
      trouble_ = refused_certificate(alert)
                     ? fmt::format("the other side does not accept this process's certificate in '{}': {}",
                                   files_.certificate, SSL_alert_desc_string_long(alert))
                     : fmt::format("the other side broke TLS off: {}", SSL_alert_desc_string_long(alert));
    } else if (ERR_GET_REASON(code) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      trouble_ = "the other side has shown no certificate";
    } else if (!is_open()) {
      trouble_ = fmt::format("the other side does not speak TLS 1.3 ({})", last_error("no reason is given"));
    } else {
      trouble_ = fmt::format("the received data is not what the other side sent ({})",
                             last_error("no reason is given"));
    }
    ERR_clear_error();
  }

  static bool refused_certificate(int alert) {
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

  const TlsFiles files_;
  const openssl::Session ssl_;
  BIO *in_, *out_;  // Of ssl_.
  bool over_ = false;
  std::string plain_, trouble_;
};

class TlsImpl : public Tls {
 public:
  explicit TlsImpl(const TlsFiles& files) : files_(files) {
    const Certificates pem = read_certificates(files);
    context_.reset(SSL_CTX_new(TLS_method()));
    const openssl::Stack chain = openssl::certificates_in(pem.certificate);
    const openssl::Bio key_text(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
    const openssl::Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
    SSL_CTX* context = context_.get();
    bool good = context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                SSL_CTX_use_certificate(context, sk_X509_value(chain.get(), 0)) == 1 &&
                SSL_CTX_use_PrivateKey(context, key.get()) == 1;
    for (int i = 1; good && i < sk_X509_num(chain.get()); ++i)
      good = SSL_CTX_add1_chain_cert(context, sk_X509_value(chain.get(), i)) == 1;
    if (!good) {
      const std::string why = last_error("no reason is given");
      ERR_clear_error();
      fail<InitializationError>("TLS cannot be used with the certificate in '{}': {}; this is the process{}",
                                files.certificate, why, Whereabouts::own().to_string());
    }
    SSL_CTX_set_cert_store(context, openssl::trusted(pem.authority).release());
    // Which process connects and which accepts is arbitrary: a certificate is valid for both.
    SSL_CTX_set_purpose(context, X509_PURPOSE_ANY);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  }

  std::unique_ptr<TlsSession> connect() const override {
    return std::make_unique<Session>(context_.get(), files_, false);
  }
  std::unique_ptr<TlsSession> accept() const override {
    return std::make_unique<Session>(context_.get(), files_, true);
  }

 private:
  const TlsFiles files_;
  openssl::Context context_;
};

}  // namespace

std::shared_ptr<const Tls> Tls::load(const TlsFiles& files) { return std::make_shared<TlsImpl>(files); }

}  // namespace lockstep::coordination
