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
  const Environment* environment = &Environment::process();  ///< has to live as long as the store
  RetryPolicy retries;                                       ///< AWS_MAX_ATTEMPTS is taken for `tries`
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{60'000};  ///< no byte for so long: the try has failed
  std::size_t part_bytes = std::size_t{16} << 20;   ///< of the first parts of an upload; S3 asks for 5 MiB
  std::size_t range_bytes = std::size_t{8} << 20;   ///< larger reads are split into ranges of this size
  int connections = 16;                             ///< ranges, parts and deletions under way at a time
  std::size_t bytes_under_way = std::size_t{128} << 20;  ///< of one upload: the memory that it takes
};

struct S3Request {
  std::string doing;   ///< for messages: "read", "write"
  std::string method;  ///< "GET"
  std::string key;     ///< "" for the bucket
  std::string prefix;  ///< of the keys that a request to the bucket is about; for messages
  Query query;
  Headers headers;
  std::span<const std::byte> body;

  /// Bytes of an object: from where, and where to. A try after one that stopped short goes on behind it.
  std::optional<std::uint64_t> range_from;
  std::span<std::byte> into;

  /// The root element of an answer with status 200; another one, or none, is an error that S3 sends late.
  std::string root;

  int tries = 0;  ///< other than S3Options say; 0: as they say
  const Cancellation* cancellation = nullptr;
};

struct S3Answer {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
  std::string code, message;  ///< of an error: "NoSuchKey", "The specified key does not exist."

  /// The header's value; "" where it was not sent.
  std::string header(const std::string& name) const;
};

/// It is unknown whether the request was done: an answer was lost, or the server failed.
class MaybeDoneError : public StorageError {
 public:
  using StorageError::StorageError;
};

/// Sends requests to one bucket: signs them, retries temporary errors, follows it to its region once, and
/// explains other errors. May be used by several threads at a time.
class S3Client {
 public:
  /// Throws StorageError if what the environment says of the endpoint cannot be understood.
  S3Client(std::string bucket, const S3Options& options);

  /// Blocks until there is an answer with one of these statuses. Throws StorageError for others, and where
  /// there is none after all tries; MaybeDoneError where one of the tries may have been done.
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
  std::chrono::system_clock::duration clock_offset_{};  ///< the server's clock, less this machine's
  Workers workers_;                                     ///< ends first: its work uses the others
};

}  // namespace lockstep::storage
