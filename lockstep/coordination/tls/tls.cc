// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/coordination/tls/certificates.h"
#include "lockstep/coordination/tls/tls_end.h"
#include "lockstep/coordination/tls/tls_stream.h"

namespace lockstep::coordination {
namespace {

class Session : public TlsSession {
 public:
  Session(const TlsContext& context, bool accepts)
      : in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())), end_(context, accepts, in_, out_) {
    end_.shake_hands();
  }

  void receive(std::string_view bytes) override {
    if (is_over()) return;
    BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    if (!is_open()) end_.shake_hands();
    if (is_open()) decipher();
  }

  std::string to_send() override {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    std::string all(bytes, static_cast<std::size_t>(size));
    BIO_reset(out_);
    return all;
  }

  bool is_open() const override { return end_.is_open(); }

  void write(std::string_view plain) override {
    if (is_over() || !is_open()) return;
    while (!plain.empty()) {
      ERR_clear_error();
      const int some = static_cast<int>(std::min<std::size_t>(plain.size(), INT_MAX));
      const int done = SSL_write(end_.ssl(), plain.data(), some);
      if (done <= 0) return end_.end(done);
      plain.remove_prefix(static_cast<std::size_t>(done));
    }
  }

  std::string read() override { return std::exchange(plain_, {}); }
  bool is_over() const override { return end_.is_over(); }
  const std::string& trouble() const override { return end_.trouble(); }
  std::string binding() const override { return end_.binding(); }
  bool names(const std::string& host) const override { return end_.names(host); }

 private:
  void decipher() {
    char bytes[16 << 10];
    while (!is_over()) {
      ERR_clear_error();
      const int got = SSL_read(end_.ssl(), bytes, sizeof bytes);
      if (got <= 0) return end_.end(got);
      plain_.append(bytes, static_cast<std::size_t>(got));
    }
  }

  BIO *in_, *out_;  // Of end_.
  TlsEnd end_;
  std::string plain_;
};

/// The name of the key in the handshake.
constexpr std::string_view kKeyName = "lockstep 1";

/// TLS_AES_128_GCM_SHA256: every OpenSSL has it, and it is the fastest.
constexpr unsigned char kCipher[] = {0x13, 0x01};

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

const TlsContext& context_of(SSL* ssl) {
  return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

/// The key, as OpenSSL takes it; null if it cannot be used.
SSL_SESSION* key_as_session(SSL* ssl) {
  const std::string& key = context_of(ssl).key;
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipher);
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, bytes_of(key), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set1_id_context(session, bytes_of(kKeyName), kKeyName.size()) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
  *session = key_as_session(ssl);
  *name = bytes_of(kKeyName);
  *size = kKeyName.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  const bool known = std::string_view(reinterpret_cast<const char*>(name), size) == kKeyName;
  *session = known ? key_as_session(ssl) : nullptr;
  return known && *session == nullptr ? 0 : 1;
}

openssl::Context new_context() {
  keep_openssl_at_exit();
  openssl::Context made(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) return nullptr;
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  return made;
}

TlsContext with_certificates(const TlsFiles& files) {
  const Certificates pem = read_certificates(files);
  TlsContext made{new_context(), files, "", kRecordsOfAKey};
  const openssl::Stack chain = openssl::certificates_in(pem.certificate);
  const openssl::Bio key_text(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
  const openssl::Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  SSL_CTX* const context = made.context.get();
  bool good = context != nullptr && SSL_CTX_use_certificate(context, sk_X509_value(chain.get(), 0)) == 1 &&
              SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  for (int i = 1; good && i < sk_X509_num(chain.get()); ++i)
    good = SSL_CTX_add1_chain_cert(context, sk_X509_value(chain.get(), i)) == 1;
  if (!good) {
    const std::string why = last_tls_error("no reason is given");
    ERR_clear_error();
    fail<InitializationError>("TLS cannot be used with the certificate in '{}': {}; this is the process{}",
                              files.certificate, why, Whereabouts::own().to_string());
  }
  SSL_CTX_set_cert_store(context, openssl::trusted(pem.authority).release());
  // Which process connects and which accepts is arbitrary: a certificate is valid for both.
  SSL_CTX_set_purpose(context, X509_PURPOSE_ANY);
  return made;
}

TlsContext with_key(std::string_view secret, std::uint64_t records_of_a_key) {
  TlsContext made{new_context(), {}, authentication_code(secret, "lockstep TLS 1", "key"), records_of_a_key};
  SSL_CTX* const context = made.context.get();
  // OpenSSL takes no key where nothing tells the contexts of sessions apart.
  if (context == nullptr || SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_session_id_context(context, bytes_of(kKeyName), kKeyName.size()) != 1) {
    const std::string why = last_tls_error("no reason is given");
    ERR_clear_error();
    fail(
        "TLS cannot be used with a key made from the job's secret: {}; look at OpenSSL's configuration "
        "(OPENSSL_CONF), or use certificates (LOCKSTEP_TLS_CERTIFICATE)",
        why);
  }
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return made;
}

class TlsImpl : public Tls {
 public:
  explicit TlsImpl(TlsContext context) : context_(std::move(context)) {
    SSL_CTX_set_app_data(context_.context.get(), &context_);
  }

  std::unique_ptr<TlsSession> connect() const override { return std::make_unique<Session>(context_, false); }
  std::unique_ptr<TlsSession> accept() const override { return std::make_unique<Session>(context_, true); }
  std::unique_ptr<TlsStream> connect(int socket) const override {
    return tls_stream(context_, false, socket);
  }
  std::unique_ptr<TlsStream> accept(int socket) const override { return tls_stream(context_, true, socket); }

 private:
  TlsContext context_;
};

}  // namespace

std::shared_ptr<const Tls> Tls::load(const TlsFiles& files) {
  return std::make_shared<TlsImpl>(with_certificates(files));
}

std::shared_ptr<const Tls> Tls::from_secret(std::string_view secret, std::uint64_t records_of_a_key) {
  return std::make_shared<TlsImpl>(with_key(secret, records_of_a_key));
}

}  // namespace lockstep::coordination
