#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/storage/credentials.h"

// The places where CredentialChain looks; only for its sources and tests. Each gives nothing where it is not
// set up, and throws StorageError where it is and does not give credentials.

namespace lockstep::storage {

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
std::optional<Credentials> credentials_of_environment(const CredentialPlaces& places);

/// The chosen profile: keys, a process, a web identity, or a role with the keys of another profile or place.
std::optional<Credentials> credentials_of_profile(const CredentialPlaces& places);

/// AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, by STS.
std::optional<Credentials> credentials_of_web_identity(const CredentialPlaces& places);

/// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI.
std::optional<Credentials> credentials_of_container(const CredentialPlaces& places);

/// The metadata service of an EC2 instance (IMDSv2). Gives nothing where it is switched off
/// (AWS_EC2_METADATA_DISABLED); where it does not answer or has no role, `why_not` says so.
std::optional<Credentials> credentials_of_instance(const CredentialPlaces& places, std::string& why_not);

/// What the command prints, as the AWS tools define it for `credential_process`. `source` names the profile.
Credentials credentials_of_process(const std::string& command, const std::string& source);

/// A role that STS gives to the holder of a token. `source` names where it is asked for.
Credentials assume_role_with_web_identity(const CredentialPlaces& places, const std::string& role,
                                          const std::string& token_file, const std::string& session,
                                          const std::string& source);

/// A role that STS gives to these credentials; `external_id` may be empty.
Credentials assume_role(const CredentialPlaces& places, const Credentials& by, const std::string& role,
                        const std::string& session, const std::string& external_id,
                        const std::string& source);

/// Of "2026-11-22T15:00:00Z"; throws StorageError where it is no time.
std::chrono::system_clock::time_point parse_time(const std::string& text);

/// Of the JSON that credential processes, containers and instances give: AccessKeyId, SecretAccessKey, and
/// `token` (its name differs) and Expiration where they are there. Throws StorageError; no secret is in the
/// message.
Credentials credentials_of_json(std::string_view json, const char* token, const std::string& source);

}  // namespace lockstep::storage
