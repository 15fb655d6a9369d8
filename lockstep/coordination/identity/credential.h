// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/identity/status.h"

namespace lockstep::coordination {

/// The name of the metadata that carries a process's identity.
inline constexpr char kIdentityMetadata[] = "lockstep-identity-bin";

/// A request as it is signed: the name of its type, and its bytes. Because of them the credential of one call
/// is not valid for another call, task or value.
struct SignedRequest {
  std::string type;
  std::string bytes;
};

/// The fewest bytes of a secret: whoever sees one call can try secrets.
inline constexpr std::size_t kShortestSecret = 16;

/// Throws InitializationError if the secret, which LOCKSTEP_JOB_SECRET has given, has fewer, unless it is
/// empty.
void refuse_short_secret(const std::string& secret);

/// The credential that a process sends with a call to prove which job it belongs to.
std::string make_credential(const Identity& identity, const Whereabouts& where, const SignedRequest& request);

/// The answer of a coordinator with the secret to a nonce.
std::string coordinators_proof(const std::string& secret, const std::string& nonce);

/// Decides which processes a coordinator lets in. Thread-safe.
class Gate {
 public:
  /// With `allow_jax`, or without a secret, accepts processes that do not identify themselves; with
  /// `later_attempts`, also those of later starts of the job. Throws Error if there is a secret, but proofs
  /// cannot be checked on this machine.
  Gate(Identity identity, bool allow_jax, bool later_attempts = false);

  /// nullopt if the caller is accepted; then sets `caller`, as far as it is known. Otherwise
  /// PERMISSION_DENIED with both sides' job and attempt. `credential` is nullopt if none was sent; `request`
  /// is only called if there is a secret.
  std::optional<Status> refusal(std::optional<std::string_view> credential,
                                const std::function<SignedRequest()>& request, Caller& caller) const;

  const Identity& identity() const { return identity_; }

  /// Whether processes are accepted that do not identify themselves.
  bool accepts_unproved() const { return allow_jax_ || identity_.secret.empty(); }

 private:
  const Identity identity_;
  const bool allow_jax_, later_attempts_;
};

}  // namespace lockstep::coordination
