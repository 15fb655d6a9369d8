// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/credential.h"

#include <fmt/format.h>

#include "job.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/identity/proof.h"

namespace lockstep::coordination {
namespace {

namespace pb = lockstep::coordination;

// Two of them fit into a message.
std::string name_job(const std::string& job_id, int attempt) {
  constexpr std::size_t kLongest = 150;
  return job_id.empty() ? fmt::format("a job without an id, attempt {}", attempt)
                        : fmt::format("job '{}', attempt {}", shown(job_id, kLongest), attempt);
}

constexpr std::string_view kCallLabel = "lockstep call 2", kProofLabel = "lockstep coordinator 2";

/// Every field by its length and its bytes, so that two calls never give the same text.
std::string signed_text(const pb::IdentityMessage& message, const SignedRequest& request) {
  std::string text;
  text.reserve(256 + request.bytes.size());
  auto add = [&text](std::string_view field) { text.append(fmt::format("{}:", field.size())).append(field); };
  add(message.job_id());
  add(std::to_string(message.attempt()));
  add(message.host());
  add(std::to_string(message.pid()));
  add(message.nonce());
  add(request.type);
  add(request.bytes);
  return text;
}

Status denied(std::string message) { return Status::of_service(Code::kPermissionDenied, std::move(message)); }

}  // namespace

void refuse_short_secret(const std::string& secret) {
  if (secret.empty() || secret.size() >= kShortestSecret) return;
  fail<InitializationError>(
      "LOCKSTEP_JOB_SECRET has {} byte{}, expected at least {}, because a shorter one could be guessed by "
      "whoever sees one call; make one with: od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'",
      secret.size(), secret.size() == 1 ? "" : "s", kShortestSecret);
}

std::string coordinators_proof(const std::string& secret, const std::string& nonce) {
  return authentication_code(secret, kProofLabel, nonce);
}

std::string make_credential(const Identity& identity, const Whereabouts& where,
                            const SignedRequest& request) {
  pb::IdentityMessage message;
  message.set_job_id(shown(identity.job_id));
  message.set_attempt(identity.attempt);
  message.set_host(where.host);
  message.set_pid(where.pid);
  if (!identity.secret.empty()) {
    message.set_nonce(random_nonce());
    message.set_proof(authentication_code(identity.secret, kCallLabel, signed_text(message, request)));
  }
  return message.SerializeAsString();
}

Gate::Gate(Identity identity, bool allow_jax, bool later_attempts)
    : identity_{shown(identity.job_id), identity.attempt, std::move(identity.secret)},
      allow_jax_(allow_jax),
      later_attempts_(later_attempts) {
  if (!identity_.secret.empty()) coordinators_proof(identity_.secret, "");
}

std::optional<Status> Gate::refusal(std::optional<std::string_view> credential,
                                    const std::function<SignedRequest()>& request, Caller& caller) const {
  std::string ours = name_job(identity_.job_id, identity_.attempt);
  if (!credential) {
    if (accepts_unproved()) return std::nullopt;
    return denied(
        fmt::format("the coordinator serves {}, and only processes that prove to belong to it, which the "
                    "caller does not: a process of Lockstep needs the same LOCKSTEP_JOB_SECRET; a process of "
                    "JAX is let in by --allow-jax",
                    ours));
  }
  pb::IdentityMessage message;
  if (!message.ParseFromArray(credential->data(), static_cast<int>(credential->size()))) {
    return denied(
        fmt::format("the coordinator serves {}, and cannot read what the caller says it belongs to", ours));
  }
  caller = {as_shown({message.host(), message.pid()}), message.attempt()};
  const std::string where = caller.where.to_string();
  std::string theirs = name_job(message.job_id(), message.attempt());
  const bool same_attempt =
      identity_.attempt == message.attempt() || (later_attempts_ && identity_.attempt < message.attempt());
  const bool same_job = identity_.job_id.empty() || message.job_id().empty() ||
                        (identity_.job_id == message.job_id() && same_attempt);
  if (!same_job) {
    return denied(fmt::format(
        "the process{} belongs to {}, but the coordinator serves {}: the process is left over from another "
        "start, or its coordinator's address is wrong; end it, or correct the address",
        where, theirs, ours));
  }
  if (identity_.secret.empty()) return std::nullopt;
  const std::string right =
      authentication_code(identity_.secret, kCallLabel, signed_text(message, request()));
  if (same_code(message.proof(), right)) return std::nullopt;
  return denied(fmt::format(
      "the process{} of {} {} the coordinator, which serves {}; give all the same LOCKSTEP_JOB_SECRET", where,
      theirs, message.proof().empty() ? "has no secret for" : "has another secret than", ours));
}

}  // namespace lockstep::coordination
