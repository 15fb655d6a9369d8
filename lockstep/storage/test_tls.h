// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string>

namespace lockstep::storage {

/// A self-signed certificate for 127.0.0.1, and a TLS context of a server that presents it.
class TestCertificate {
 public:
  TestCertificate() {
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1,
                               -1, 0);
    X509_set_issuer_name(certificate_, name);
    X509_EXTENSION* address = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate_, address, -1);
    X509_EXTENSION_free(address);
    X509_sign(certificate_, key_, EVP_sha256());
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, certificate_);
    SSL_CTX_use_PrivateKey(context_, key_);
  }
  ~TestCertificate() {
    SSL_CTX_free(context_);
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  SSL_CTX* context() const { return context_; }

  std::string pem() const {
    BIO* memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(memory, certificate_);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory, &text);
    std::string pem(text, static_cast<std::size_t>(size));
    BIO_free(memory);
    return pem;
  }

 private:
  EVP_PKEY* key_;
  X509* certificate_;
  SSL_CTX* context_;
};

}  // namespace lockstep::storage
