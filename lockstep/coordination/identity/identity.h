// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep::coordination {

/// The job, and the start of it, to which a process or a coordinator belongs.
struct Identity {
  /// Empty if none was given; compared, as `shown` makes it, only if both sides have one.
  std::string job_id;
  int attempt = 0;  ///< the number of restarts of the job; compared with the job id

  /// A secret of the job's processes and its coordinator; empty: none. It is never sent: a process proves by
  /// an HMAC that it has it.
  std::string secret;
};

/// Files in PEM for mutual TLS; plain text if they are not given.
struct TlsFiles {
  std::string certificate;  ///< of this process or coordinator
  std::string key;          ///< its private key
  std::string authority;    ///< the authority that signed the others' certificates

  bool given() const { return !certificate.empty() || !key.empty() || !authority.empty(); }

  /// LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY; empty if not set.
  static TlsFiles from(const Environment& environment);
};

/// The host and pid of a process: "" and 0 if unknown.
struct Whereabouts {
  static constexpr std::size_t kLongestHost = 255;
  std::string host;
  std::int64_t pid = 0;

  bool known() const { return !host.empty() || pid != 0; }

  /// For this process.
  static Whereabouts own();

  /// " (host b, pid 4711)", or the known part of it; "" if nothing is known.
  std::string to_string() const;
};

/// The sender of a call, as far as it is known.
struct Caller {
  Whereabouts where = {};
  int attempt = 0;
};

/// For a new incarnation of a process or a coordinator: a random number, never 0.
std::uint64_t random_incarnation();

/// The whereabouts with a host that can be shown and sent, whatever a process has said.
Whereabouts as_shown(const Whereabouts& where);

}  // namespace lockstep::coordination
