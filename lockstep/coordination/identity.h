#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep::coordination {

/// Which job, and which start of it, a process or a coordinator belongs to.
struct Identity {
  std::string job_id;  ///< Empty if none was given; compared only if both sides have one.
  int attempt = 0;     ///< Counts restarts of the job; compared with the job id.

  /// Known only to the job's processes and its coordinator. Empty: none. It is never sent: a process proves
  /// by an HMAC that it has it.
  std::string secret;
};

/// Files in PEM for mutual TLS; plain text if they are not given.
struct TlsFiles {
  std::string certificate;  ///< Of this process or coordinator.
  std::string key;          ///< Its private key.
  std::string authority;    ///< The authority that signed the others' certificates.

  bool given() const { return !certificate.empty() || !key.empty() || !authority.empty(); }

  /// LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY; what is not set is empty.
  static TlsFiles from(const Environment& environment);
};

/// Where a process runs: "" and 0 if it is not known.
struct Whereabouts {
  std::string host;
  std::int64_t pid = 0;

  bool known() const { return !host.empty() || pid != 0; }

  /// Of this process.
  static Whereabouts own();

  /// " (host b, pid 4711)", or what is known of it; "" where nothing is.
  std::string to_string() const;
};

}  // namespace lockstep::coordination
