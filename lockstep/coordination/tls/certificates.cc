// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/certificates.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/tls/openssl.h"

namespace lockstep::coordination {
namespace openssl {

Stack certificates_in(std::string_view pem) {
  Stack all(sk_X509_new_null());
  const Bio in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* one = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)) sk_X509_push(all.get(), one);
  const bool at_the_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return at_the_end && sk_X509_num(all.get()) > 0 ? std::move(all) : nullptr;
}

std::string subject_of(const X509* certificate) {
  const Bio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

std::string time_text(const ASN1_TIME* time) {
  const Bio text(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(text.get(), time);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

Store trusted(std::string_view pem) {
  const Stack authorities = certificates_in(pem);
  if (!authorities) return nullptr;
  Store store(X509_STORE_new());
  // An authority need not be a root: whatever the file holds is trusted.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  for (int i = 0; i < sk_X509_num(authorities.get()); ++i)
    X509_STORE_add_cert(store.get(), sk_X509_value(authorities.get(), i));
  return store;
}

}  // namespace openssl

namespace {

[[noreturn]] void refuse(const std::string& what) {
  fail<InitializationError>("{}; this is the process{}", what, Whereabouts::own().to_string());
}

std::string read(const char* what, const char* variable, const std::string& path) {
  if (path.empty()) {
    refuse(fmt::format(
        "TLS needs a certificate, its key and the authority's certificate, but the {} is not given: set {}",
        what, variable));
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    refuse(fmt::format("the {} for TLS cannot be read from '{}': {}", what, path,
                       file ? "it is empty" : std::strerror(errno)));
  }
  return text.str();
}

/// For an encrypted key OpenSSL would ask for the pass phrase at the terminal.
int no_pass_phrase(char*, int, int, void*) { return 0; }

void check(const TlsFiles& files, const Certificates& pem) {
  using namespace openssl;
  const Stack chain = certificates_in(pem.certificate);
  if (!chain) refuse(fmt::format("'{}' holds no certificate in PEM", files.certificate));
  const Store store = trusted(pem.authority);
  if (!store) refuse(fmt::format("'{}' holds no certificate of an authority in PEM", files.authority));
  X509* own = sk_X509_value(chain.get(), 0);

  const Bio key_text(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  if (!key) refuse(fmt::format("'{}' holds no private key in PEM without a pass phrase", files.key));
  if (X509_check_private_key(own, key.get()) != 1) {
    ERR_clear_error();
    refuse(fmt::format("the private key in '{}' is not that of the certificate in '{}'", files.key,
                       files.certificate));
  }

  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), own, chain.get());
  if (X509_verify_cert(context.get()) == 1) return;
  const int error = X509_STORE_CTX_get_error(context.get());
  const X509* wrong = X509_STORE_CTX_get_current_cert(context.get());
  ERR_clear_error();
  if (wrong == nullptr) wrong = own;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      refuse(fmt::format("the certificate of {} in '{}' has expired: it was valid until {}; make a new one",
                         subject_of(wrong), wrong == own ? files.certificate : files.authority,
                         time_text(X509_get0_notAfter(wrong))));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      refuse(fmt::format(
          "the certificate of {} in '{}' is not valid before {}; see whether this host's clock is "
          "right",
          subject_of(wrong), wrong == own ? files.certificate : files.authority,
          time_text(X509_get0_notBefore(wrong))));
    default:
      refuse(fmt::format("the certificate of {} in '{}' is not signed by an authority in '{}' ({})",
                         subject_of(own), files.certificate, files.authority,
                         X509_verify_cert_error_string(error)));
  }
}

void warn_if_readable(const std::string& key) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  struct stat found {};
  if (::stat(key.c_str(), &found) != 0 || (found.st_mode & 044) == 0) return;
  const std::lock_guard lock(mutex);
  if (!warned.insert(key).second) return;
  logging::warning("other users can read the private key in '{}' (mode {:o}); chmod 600 keeps it secret", key,
                   found.st_mode & 07777);
}

}  // namespace

Certificates read_certificates(const TlsFiles& files) {
  keep_openssl_at_exit();
  const Certificates pem{read("certificate", "LOCKSTEP_TLS_CERTIFICATE", files.certificate),
                         read("key", "LOCKSTEP_TLS_KEY", files.key),
                         read("authority's certificate", "LOCKSTEP_TLS_AUTHORITY", files.authority)};
  check(files, pem);
  warn_if_readable(files.key);
  return pem;
}

Certificates read_certificates(const TlsFiles& files, CertificateUse use) {
  Certificates pem = read_certificates(files);
  const openssl::Stack chain = openssl::certificates_in(pem.certificate);
  X509* own = sk_X509_value(chain.get(), 0);
  const bool client = use == CertificateUse::kClient;
  if (X509_check_purpose(own, client ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER, 0) != 1) {
    refuse(fmt::format(
        "the certificate of {} in '{}' is not for {}: its extendedKeyUsage lacks {}, or its keyUsage lacks "
        "digitalSignature; make one for clients and servers",
        openssl::subject_of(own), files.certificate,
        client ? "clients, as processes are of the coordinator" : "servers, as the coordinator is",
        client ? "clientAuth" : "serverAuth"));
  }
  return pem;
}

}  // namespace lockstep::coordination
