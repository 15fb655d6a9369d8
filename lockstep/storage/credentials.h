// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/storage/aws_config.h"
#include "lockstep/storage/http.h"
#include "lockstep/storage/sigv4.h"

namespace lockstep::storage {

/// The time of day, passed in so that a test can control it.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

struct Credentials {
  SigningKeys keys;
  std::string source;  ///< their source, for messages: "the environment", "profile x of FILE"
  std::optional<std::chrono::system_clock::time_point> expires;  ///< nullopt: they do not expire

  /// The source and the last four characters of the access key's id, which messages may contain.
  std::string described() const;
};

/// Where to look for credentials.
struct CredentialPlaces {
  const Environment* environment = &Environment::process();
  const AwsConfig* config = nullptr;  ///< required
  HttpClient* http = nullptr;         ///< required
  WallClock now = [] { return std::chrono::system_clock::now(); };
  std::string container_server = "http://169.254.170.2";  ///< for AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
  RetryPolicy retries{.tries = 4};                        ///< for the services
};

/// The credentials of this process, found as by the AWS tools, in this order: environment variables, the
/// profile of the AWS files, a web identity, the container, the machine. They are kept, and renewed before
/// they expire. Thread-safe.
class CredentialChain {
 public:
  /// The objects to which `places` points must outlive it.
  explicit CredentialChain(CredentialPlaces places);

  /// Blocks if they have to be fetched. Throws StorageError if there are none, listing the sources, or if a
  /// configured source does not provide them.
  Credentials get();

  /// These were rejected as expired: the next `get` fetches new ones.
  void refused(const Credentials& credentials);

 private:
  Credentials find() const;

  CredentialPlaces places_;
  std::mutex mutex_;
  std::optional<Credentials> kept_;
  std::chrono::system_clock::time_point
      try_again_{};  ///< after failing to fetch new ones while the kept ones are still valid
};

}  // namespace lockstep::storage
