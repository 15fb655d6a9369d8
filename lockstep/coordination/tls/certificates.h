// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/coordination/identity/identity.h"

namespace lockstep::coordination {

/// The contents of TlsFiles, in PEM.
struct Certificates {
  std::string certificate, key, authority;
};

/// Reads and checks the files, so that this process reports an error in its own certificate before another
/// process does. Throws InitializationError, which names the file, this process's host and pid, and the
/// error, if a file is not given, cannot be read or has the wrong content, if the key does not belong to
/// the certificate, and if the certificate has expired, is not valid yet, or was not signed by the
/// authority.
Certificates read_certificates(const TlsFiles& files);

/// The side of a connection that a certificate is for.
enum class CertificateUse { kClient, kServer };

/// As read_certificates; also throws if the certificate's extensions do not allow this use, which the other
/// side of a connection to the coordinator checks.
Certificates read_certificates(const TlsFiles& files, CertificateUse use);

}  // namespace lockstep::coordination
