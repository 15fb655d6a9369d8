// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/storage/credentials.h"

// The sources of CredentialChain; only for its sources and tests. Each returns nothing if it is not
// configured, and throws StorageError if it is configured and does not provide credentials.

namespace lockstep::storage {

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
std::optional<Credentials> credentials_of_environment(const CredentialPlaces& places);

/// The chosen profile: keys, a process, a web identity, or a role with the keys of another profile or source.
std::optional<Credentials> credentials_of_profile(const CredentialPlaces& places);

/// AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, through STS.
std::optional<Credentials> credentials_of_web_identity(const CredentialPlaces& places);

/// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI.
std::optional<Credentials> credentials_of_container(const CredentialPlaces& places);

/// The metadata service of an EC2 instance (IMDSv2). Returns nothing if it is turned off
/// (AWS_EC2_METADATA_DISABLED); if it does not answer or has no role, `why_not` has the reason.
std::optional<Credentials> credentials_of_instance(const CredentialPlaces& places, std::string& why_not);

/// The output of the command, in the AWS tools' format of `credential_process`. `source` names the profile.
Credentials credentials_of_process(const std::string& command, const std::string& source);

/// A role from STS for the holder of a token. `source` names where it is configured.
Credentials assume_role_with_web_identity(const CredentialPlaces& places, const std::string& role,
                                          const std::string& token_file, const std::string& session,
                                          const std::string& source);

/// A role from STS for these credentials; `external_id` may be empty.
Credentials assume_role(const CredentialPlaces& places, const Credentials& by, const std::string& role,
                        const std::string& session, const std::string& external_id,
                        const std::string& source);

/// From "2026-11-22T15:00:00Z"; throws StorageError for any other text.
std::chrono::system_clock::time_point parse_time(const std::string& text);

/// From the JSON of credential processes, containers and instances: AccessKeyId, SecretAccessKey, and, if
/// they exist, `token` (whose name differs) and Expiration. Throws StorageError; the message contains no
/// secret.
Credentials credentials_of_json(std::string_view json, const char* token, const std::string& source);

}  // namespace lockstep::storage
