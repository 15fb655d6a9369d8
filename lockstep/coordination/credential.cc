#include "lockstep/coordination/credential.h"

#include <fmt/format.h>

#include "job.pb.h"
#include "lockstep/coordination/host.h"
#include "lockstep/coordination/proof.h"

namespace lockstep::coordination {
namespace {

namespace pb = lockstep::coordination;

std::string name_job(const std::string& job_id, int attempt) {
  return job_id.empty() ? fmt::format("a job without an id, attempt {}", attempt)
                        : fmt::format("job '{}', attempt {}", job_id, attempt);
}

/// Every field by its length and its bytes, so that two identities never give the same text.
std::string signed_text(const pb::IdentityMessage& message) {
  auto field = [](const std::string& text) { return fmt::format("{}:{};", text.size(), text); };
  return "lockstep coordination 1;" + field(message.job_id()) + field(std::to_string(message.attempt())) +
         field(message.host()) + field(std::to_string(message.pid())) + field(message.nonce());
}

Status denied(std::string message) { return Status::of_service(Code::kPermissionDenied, std::move(message)); }

}  // namespace

std::string make_credential(const Identity& identity, const Whereabouts& where) {
  pb::IdentityMessage message;
  message.set_job_id(identity.job_id);
  message.set_attempt(identity.attempt);
  message.set_host(where.host);
  message.set_pid(where.pid);
  std::uint64_t nonce = random_incarnation();
  message.set_nonce(std::string(reinterpret_cast<const char*>(&nonce), sizeof(nonce)));
  if (!identity.secret.empty()) message.set_proof(proof_of(identity.secret, signed_text(message)));
  return message.SerializeAsString();
}

std::optional<Status> Gate::refusal(std::optional<std::string_view> credential, Whereabouts& where) const {
  std::string ours = name_job(identity_.job_id, identity_.attempt);
  if (!credential) {
    if (allow_jax_ || identity_.secret.empty()) return std::nullopt;
    return denied(fmt::format(
        "the coordinator serves {}, and only processes that prove to belong to it, but the caller does not "
        "say "
        "what it belongs to: it is a process of JAX, or of another program; such processes are let in by "
        "--allow-jax",
        ours));
  }
  pb::IdentityMessage message;
  if (!message.ParseFromArray(credential->data(), static_cast<int>(credential->size()))) {
    return denied(
        fmt::format("the coordinator serves {}, and cannot read what the caller says it belongs to", ours));
  }
  where = {message.host(), message.pid()};
  std::string theirs = name_job(message.job_id(), message.attempt());
  bool same_job = identity_.job_id.empty() || message.job_id().empty() ||
                  (identity_.job_id == message.job_id() && identity_.attempt == message.attempt());
  if (!same_job) {
    return denied(fmt::format(
        "the process{} belongs to {}, but the coordinator serves {}: the process is left over from another "
        "start, or its coordinator's address is wrong; end it, or correct the address",
        where.to_string(), theirs, ours));
  }
  if (identity_.secret.empty()) return std::nullopt;
  if (same_proof(message.proof(), proof_of(identity_.secret, signed_text(message)))) return std::nullopt;
  return denied(fmt::format(
      "the process{} of {} {} the coordinator, which serves {}; give all the same LOCKSTEP_JOB_SECRET",
      where.to_string(), theirs, message.proof().empty() ? "has no secret for" : "has another secret than",
      ours));
}

}  // namespace lockstep::coordination
