// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/coordination/identity/identity.h"

namespace lockstep::testing {

/// An authority that signs certificates for the test, and writes them to a folder.
class TestAuthority {
 public:
  /// Its own certificate is NAME-authority.pem in the folder, which must exist.
  TestAuthority(const std::filesystem::path& folder, const std::string& name);
  ~TestAuthority();

  struct Certificate {
    std::string name = "node";
    std::string addresses = "IP:127.0.0.1,DNS:localhost";  ///< subjectAltName
    std::chrono::seconds from{-3600}, until{86400};  ///< the period in which it is valid, relative to now
    std::string usage = "";                          ///< extendedKeyUsage: "serverAuth"; empty: any
  };

  /// Files with a new certificate and its key.
  coordination::TlsFiles issue(const Certificate& what) const;

 private:
  struct Own;
  const std::filesystem::path folder_;
  const std::string name_;
  std::unique_ptr<Own> own_;
};

}  // namespace lockstep::testing
