// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/credentials.h"

#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/storage/credential_sources.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {
namespace {

using namespace std::chrono_literals;

/// Credentials that are valid for less than this are renewed.
constexpr auto kRefreshBefore = 5min;
/// Where that failed, and the old ones still last, when it is tried again.
constexpr auto kTryAgainAfter = 30s;

std::optional<Credentials> keys_in_profile(const AwsConfig& config, const std::string& profile) {
  const auto id = config.get(profile, "aws_access_key_id");
  const auto secret = config.get(profile, "aws_secret_access_key");
  if (!id && !secret) return std::nullopt;
  if (!id || !secret) {
    fail<StorageError>("profile {} has {} without {}; give both in {} or {}", profile,
                       id ? "aws_access_key_id" : "aws_secret_access_key",
                       id ? "aws_secret_access_key" : "aws_access_key_id", config.credentials_file(),
                       config.config_file());
  }
  return Credentials{{*id, *secret, config.get(profile, "aws_session_token").value_or("")},
                     fmt::format("profile {} of {}", profile, config.credentials_file()),
                     std::nullopt};
}

Credentials of_named_place(const CredentialPlaces& places, const std::string& profile,
                           const std::string& name) {
  std::optional<Credentials> found;
  std::string why_not;
  if (name == "Environment") {
    found = credentials_of_environment(places);
  } else if (name == "EcsContainer") {
    found = credentials_of_container(places);
  } else if (name == "Ec2InstanceMetadata") {
    found = credentials_of_instance(places, why_not);
  } else {
    fail<StorageError>(
        "profile {} has credential_source = {}; expected Environment, EcsContainer or Ec2InstanceMetadata",
        profile, name);
  }
  if (!found)
    fail<StorageError>("profile {}: credential_source = {} gives no credentials{}", profile, name,
                       why_not.empty() ? why_not : ": " + why_not);
  return *found;
}

/// `above`: the profiles that lead to this one by their source_profile.
std::optional<Credentials> of_profile(const CredentialPlaces& places, const std::string& profile,
                                      std::set<std::string> above) {
  const AwsConfig& config = *places.config;
  if (!config.has(profile)) {
    if (above.empty() && !config.profile_is_named()) return std::nullopt;
    fail<StorageError>("there is no AWS profile {} in {} and {}", profile, config.credentials_file(),
                       config.config_file());
  }
  const bool again = !above.insert(profile).second;
  const std::string source = fmt::format("profile {} of {}", profile, config.config_file());
  const std::string session = config.get(profile, "role_session_name").value_or("lockstep");
  if (const auto role = config.get(profile, "role_arn"); role && !again) {
    if (const auto file = config.get(profile, "web_identity_token_file"))
      return assume_role_with_web_identity(places, *role, *file, session, source);
    if (config.get(profile, "mfa_serial")) {
      fail<StorageError>("{} asks for a code (mfa_serial), which a job cannot give; use credential_process",
                         source);
    }
    std::optional<Credentials> by;
    if (const auto from = config.get(profile, "source_profile")) {
      if (above.count(*from) > 0 && *from != profile)
        fail<StorageError>("{}: its source_profile leads back to {}", source, *from);
      by = of_profile(places, *from, above);
    } else if (const auto place = config.get(profile, "credential_source")) {
      by = of_named_place(places, profile, *place);
    }
    if (!by)
      fail<StorageError>("{} has a role_arn, but neither source_profile nor credential_source", source);
    return assume_role(places, *by, *role, session, config.get(profile, "external_id").value_or(""), source);
  }
  if (auto keys = keys_in_profile(config, profile)) return keys;
  if (const auto command = config.get(profile, "credential_process"))
    return credentials_of_process(*command, source);
  if (config.get(profile, "sso_session") || config.get(profile, "sso_start_url")) {
    fail<StorageError>(
        "{} signs in by SSO, which Lockstep does not do; add to a profile: credential_process = "
        "aws configure export-credentials --profile {} --format process",
        source, profile);
  }
  if (config.profile_is_named() || above.size() > 1) fail<StorageError>("{} has no credentials", source);
  return std::nullopt;
}

}  // namespace

std::string Credentials::described() const {
  const std::string& id = keys.access_key_id;
  return fmt::format("credentials of {} (access key id ending in {})", source,
                     id.size() > 8 ? id.substr(id.size() - 4) : "...");
}

std::optional<Credentials> credentials_of_environment(const CredentialPlaces& places) {
  const auto id = aws_variable(*places.environment, "AWS_ACCESS_KEY_ID");
  const auto secret = aws_variable(*places.environment, "AWS_SECRET_ACCESS_KEY");
  if (!id && !secret) return std::nullopt;
  if (!id || !secret) {
    fail<StorageError>("{} is set, but {} is not; set both, or none",
                       id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                       id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  }
  return Credentials{{*id, *secret, aws_variable(*places.environment, "AWS_SESSION_TOKEN").value_or("")},
                     "the environment",
                     std::nullopt};
}

std::optional<Credentials> credentials_of_profile(const CredentialPlaces& places) {
  return of_profile(places, places.config->profile(), {});
}

CredentialChain::CredentialChain(CredentialPlaces places) : places_(std::move(places)) {}

Credentials CredentialChain::find() const {
  if (auto found = credentials_of_environment(places_)) return *found;
  if (auto found = credentials_of_profile(places_)) return *found;
  if (auto found = credentials_of_web_identity(places_)) return *found;
  if (auto found = credentials_of_container(places_)) return *found;
  std::string instance;
  if (auto found = credentials_of_instance(places_, instance)) return *found;
  const AwsConfig& config = *places_.config;
  fail<StorageError>(
      "no AWS credentials were found. Looked at: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which are not "
      "set; profile {} in {} and {}, which {}; AWS_WEB_IDENTITY_TOKEN_FILE and "
      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, which are not set; the machine's metadata "
      "service: {}. Set one of them up; docs/storage.md has the list",
      config.profile(),
      config.credentials_file().empty() ? "~/.aws/credentials (HOME is not set)" : config.credentials_file(),
      config.config_file().empty() ? "~/.aws/config" : config.config_file(),
      config.has(config.profile()) ? "has none" : "is not there", instance);
}

Credentials CredentialChain::get() {
  std::lock_guard lock(mutex_);
  const auto now = places_.now();
  const bool fresh = kept_ && (!kept_->expires || *kept_->expires - now > kRefreshBefore);
  if (fresh || (kept_ && now<try_again_&& * kept_->expires> now)) return *kept_;
  if (!kept_ || *kept_->expires <= now) return *(kept_ = find());
  try {
    kept_ = find();
  } catch (const StorageError& error) {
    logging::warning("the {} expire soon, and new ones cannot be fetched: {}", kept_->described(),
                     error.what());
    try_again_ = now + kTryAgainAfter;
  }
  return *kept_;
}

void CredentialChain::refused(const Credentials& credentials) {
  std::lock_guard lock(mutex_);
  if (kept_ && kept_->keys.access_key_id == credentials.keys.access_key_id &&
      kept_->keys.session_token == credentials.keys.session_token) {
    kept_.reset();
  }
}

}  // namespace lockstep::storage
