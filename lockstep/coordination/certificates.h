#pragma once

#include <string>

#include "lockstep/coordination/identity.h"

namespace lockstep::coordination {

/// What TlsFiles hold, in PEM.
struct Certificates {
  std::string certificate, key, authority;
};

/// Reads the files and checks them, so that this process says what is wrong with its own certificate before
/// another one has to. Throws InitializationError, which names the file, this process's host and pid, and
/// what is wrong, where a file is not given, cannot be read or holds something else, where the key is not the
/// certificate's, and where the certificate has expired, is not valid yet, or was not signed by the
/// authority.
Certificates read_certificates(const TlsFiles& files);

}  // namespace lockstep::coordination
