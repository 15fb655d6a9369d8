// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "lockstep/storage/aws_config.h"
#include "lockstep/storage/credentials.h"
#include "lockstep/storage/http.h"
#include "lockstep/storage/s3_endpoint.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/workers.h"

namespace lockstep::storage {

/// How an object store is used; the defaults are right except for tests.
struct S3Options {
  const Environment* environment = &Environment::process();  ///< must live as long as the store
  RetryPolicy retries;                                       ///< AWS_MAX_ATTEMPTS sets `tries`
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{60'000};  ///< a try fails if no byte arrives for this time
  std::size_t part_bytes = std::size_t{16} << 20;   ///< of the first parts of an upload; S3 requires 5 MiB
  std::size_t range_bytes = std::size_t{8} << 20;   ///< larger reads are split into ranges of this size
  int connections = 16;                             ///< concurrent ranges, parts and deletions
  std::size_t bytes_under_way = std::size_t{128} << 20;  ///< the memory of one upload
};

struct S3Request {
  std::string doing;   ///< for messages: "read", "write"
  std::string method;  ///< "GET"
  std::string key;     ///< "" for the bucket
  std::string prefix;  ///< of the keys that a request to the bucket concerns; for messages
  Query query;
  Headers headers;
  std::span<const std::byte> body;

  /// The range of an object to read, and the memory for it. A retry after an interrupted answer continues
  /// after the received bytes.
  std::optional<std::uint64_t> range_from;
  std::span<std::byte> into;

  /// The root element of an answer with status 200. Another one, or none, is an error, which S3 may report
  /// late.
  std::string root;

  int tries = 0;  ///< overrides S3Options; 0: not set
  const Cancellation* cancellation = nullptr;
};

struct S3Answer {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
  std::string code, message;  ///< for an error: "NoSuchKey", "The specified key does not exist."

  /// The header's value; "" if it was not sent.
  std::string header(const std::string& name) const;
};

/// It is unknown whether the request was done: the answer was lost, or the server failed.
class MaybeDoneError : public StorageError {
 public:
  using StorageError::StorageError;
};

/// Sends requests to one bucket: signs them, retries temporary errors, follows the bucket to its region once,
/// and explains other errors. Thread-safe.
class S3Client {
 public:
  /// Throws StorageError if the environment's settings of the endpoint are invalid.
  S3Client(std::string bucket, const S3Options& options);

  /// Blocks until there is an answer with one of these statuses. Throws StorageError for other statuses, and
  /// if there is no answer after all tries; MaybeDoneError if one of the tries may have been done.
  S3Answer send(const S3Request& request, std::initializer_list<int> accepted);

  /// "s3://bucket/key"
  std::string url(const std::string& key) const { return "s3://" + bucket_ + "/" + key; }

  const S3Options& options() const { return options_; }
  Workers& workers() { return workers_; }
  HttpClient& http() { return http_; }

 private:
  struct Try;
  HttpAnswer send_once(const S3Request& request, const Credentials& credentials, std::size_t done);
  Try look_at(const S3Request& request, HttpAnswer answer, std::size_t& done) const;
  bool adapt(const Try& tried, const Credentials& credentials, bool& region_followed, bool& clock_set,
             bool& credentials_renewed);
  [[noreturn]] void give_up(const S3Request& request, const Try& tried, const Credentials& credentials,
                            int tries, bool maybe_done, std::chrono::steady_clock::time_point since) const;
  S3Endpoint endpoint() const;
  std::string shown(const S3Request& request) const { return url(request.key + request.prefix); }

  std::string bucket_;
  S3Options options_;
  AwsConfig config_;
  HttpClient http_;
  CredentialChain credentials_;
  mutable std::mutex mutex_;
  std::string region_;
  S3Endpoint endpoint_;
  std::chrono::system_clock::duration clock_offset_{};  ///< the server's clock minus this machine's
  Workers workers_;                                     ///< destroyed first, because its work uses the others
};

}  // namespace lockstep::storage
