// SPDX-License-Identifier: Apache-2.0
#pragma once

// OpenSSL's objects with their owners; only for the sources of this folder.

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::coordination::openssl {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
inline void free_stack(STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); }

using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Stack = std::unique_ptr<STACK_OF(X509), Free<free_stack>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Free<SSL_free>>;

/// All certificates in the text; null if there are none, or one cannot be read.
Stack certificates_in(std::string_view pem);

/// "CN = node, O = lab".
std::string subject_of(const X509* certificate);

/// "Nov 21 12:00:00 2026 GMT".
std::string time_text(const ASN1_TIME* time);

/// The trusted authorities of this process. Null if the text contains none.
Store trusted(std::string_view pem);

}  // namespace lockstep::coordination::openssl
