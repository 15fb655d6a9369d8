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

/// The time of day, passed in so that a test can give its own.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

struct Credentials {
  SigningKeys keys;
  std::string source;  ///< where they are from, for messages: "the environment", "profile x of FILE"
  std::optional<std::chrono::system_clock::time_point> expires;  ///< none: they do not

  /// Source and the last four characters of the access key's id: what a message may say of them.
  std::string described() const;
};

/// Where credentials are looked for.
struct CredentialPlaces {
  const Environment* environment = &Environment::process();
  const AwsConfig* config = nullptr;  ///< has to be given
  HttpClient* http = nullptr;         ///< has to be given
  WallClock now = [] { return std::chrono::system_clock::now(); };
  std::string container_server = "http://169.254.170.2";  ///< for AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
  RetryPolicy retries{.tries = 4};                        ///< of the services that are asked
};

/// The credentials of this process, as the AWS tools find them, in this order: environment variables, the
/// profile of the AWS files, a web identity, the container's, the machine's. Kept, and renewed before they
/// expire. May be used by several threads at a time.
class CredentialChain {
 public:
  /// The objects that the places point to must outlive it.
  explicit CredentialChain(CredentialPlaces places);

  /// Blocks if they have to be fetched. Throws StorageError if there are none, listing the places searched,
  /// or if a place that is set up does not give them.
  Credentials get();

  /// They were refused as expired: the next `get` fetches others.
  void refused(const Credentials& credentials);

 private:
  Credentials find() const;

  CredentialPlaces places_;
  std::mutex mutex_;
  std::optional<Credentials> kept_;
  std::chrono::system_clock::time_point
      try_again_{};  ///< when fetching others failed, for kept ones still good
};

}  // namespace lockstep::storage
