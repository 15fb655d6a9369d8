#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/status.h"

namespace lockstep::coordination {

/// The name of the metadata that carries a process's identity.
inline constexpr char kIdentityMetadata[] = "lockstep-identity-bin";

/// What a process sends with every call to say, and prove, which job it belongs to.
std::string make_credential(const Identity& identity, const Whereabouts& where);

/// Decides which processes a coordinator lets in. Thread-safe.
class Gate {
 public:
  /// With `allow_jax`, or without a secret, processes that say nothing of themselves come in.
  Gate(Identity identity, bool allow_jax) : identity_(std::move(identity)), allow_jax_(allow_jax) {}

  /// Nullopt where the caller may come in, and then `where` is set as far as the caller says; otherwise
  /// PERMISSION_DENIED with both sides' job and attempt. `credential` is nullopt where none came.
  std::optional<Status> refusal(std::optional<std::string_view> credential, Whereabouts& where) const;

 private:
  const Identity identity_;
  const bool allow_jax_;
};

}  // namespace lockstep::coordination
