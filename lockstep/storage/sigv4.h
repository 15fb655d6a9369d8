// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/storage/uri.h"

namespace lockstep::storage {

/// Names and values of an HTTP request's headers.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// The keys for signing a request.
struct SigningKeys {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  ///< empty if the keys are not temporary
};

/// The signed parts of a request. All its headers are signed, so it must only contain headers that no proxy
/// changes.
struct RequestToSign {
  std::string method;        ///< "GET"
  std::string path;          ///< as it is sent: begins with "/", encoded once
  Query query;               ///< not encoded
  Headers headers;           ///< with "host"
  std::string payload_hash;  ///< `sha256_hex` of the body
};

/// The scope of a signature.
struct SigningScope {
  std::string region;   ///< "us-east-1"
  std::string service;  ///< "s3"
  std::chrono::system_clock::time_point time;
};

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

/// AWS Signature Version 4: the headers to add to the request's own: x-amz-date, x-amz-security-token if
/// there is a session token, and authorization.
Headers signature_headers(const RequestToSign& request, const SigningKeys& keys, const SigningScope& scope);

}  // namespace lockstep::storage
