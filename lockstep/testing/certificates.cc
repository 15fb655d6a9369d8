// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"

namespace lockstep::testing {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Signed = std::unique_ptr<X509, decltype(&X509_free)>;

void must(bool good, const char* what) {
  if (!good) fail("a test's certificate cannot be made: {}", what);
}

template <class Write>
void write(const std::filesystem::path& path, Write write) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  must(file != nullptr, path.c_str());
  const bool good = write(file) == 1;
  must(std::fclose(file) == 0 && good, path.c_str());
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value.c_str());
  X509_EXTENSION_free(extension);
}

Signed blank(const std::string& name, EVP_PKEY* key, std::chrono::seconds from, std::chrono::seconds until) {
  static std::atomic<int> serial = 1;
  Signed certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from.count());
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until.count());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

Key new_key() {
  keep_openssl_at_exit();
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  must(key != nullptr, "no key");
  return key;
}

}  // namespace

struct TestAuthority::Own {
  Key key = new_key();
  Signed certificate{nullptr, X509_free};
};

TestAuthority::TestAuthority(const std::filesystem::path& folder, const std::string& name)
    : folder_(folder), name_(name), own_(std::make_unique<Own>()) {
  own_->certificate = blank(name, own_->key.get(), std::chrono::hours(-1), std::chrono::hours(24));
  X509* certificate = own_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  must(X509_sign(certificate, own_->key.get(), EVP_sha256()) != 0, "it cannot be signed");
  write(folder_ / (name_ + "-authority.pem"),
        [&](std::FILE* file) { return PEM_write_X509(file, certificate); });
}

TestAuthority::~TestAuthority() = default;

coordination::TlsFiles TestAuthority::issue(const Certificate& what) const {
  const Key key = new_key();
  const Signed certificate = blank(what.name, key.get(), what.from, what.until);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(own_->certificate.get()));
  extend(certificate.get(), own_->certificate.get(), NID_subject_alt_name, what.addresses);
  if (!what.usage.empty()) extend(certificate.get(), own_->certificate.get(), NID_ext_key_usage, what.usage);
  must(X509_sign(certificate.get(), own_->key.get(), EVP_sha256()) != 0, "it cannot be signed");
  const std::string stem = (folder_ / (name_ + "-" + what.name)).string();
  coordination::TlsFiles files{stem + ".pem", stem + ".key", (folder_ / (name_ + "-authority.pem")).string()};
  write(files.certificate, [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  write(files.key, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

}  // namespace lockstep::testing
