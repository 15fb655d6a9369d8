// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/s3_client.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {
namespace {

using Steady = std::chrono::steady_clock;

/// Waits after this number of tries are logged, so that a job never stops without a message.
constexpr int kTellFromTry = 3;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

S3Options with_variables(S3Options options) {
  const auto attempts = aws_variable(*options.environment, "AWS_MAX_ATTEMPTS");
  if (!attempts) return options;
  int tries = 0;
  const char* const end = attempts->data() + attempts->size();
  const auto [stop, error] = std::from_chars(attempts->data(), end, tries);
  if (error != std::errc() || stop != end || tries < 1)
    fail<StorageError>("AWS_MAX_ATTEMPTS is \"{}\"; expected a number of at least 1", *attempts);
  options.retries.tries = tries;
  return options;
}

std::string ca_file(const Environment& environment, const AwsConfig& config) {
  if (auto file = aws_variable(environment, "AWS_CA_BUNDLE")) return *file;
  if (auto file = config.get(config.profile(), "ca_bundle")) return *file;
  return aws_variable(environment, "SSL_CERT_FILE").value_or("");
}

/// The server's time, of "Sun, 22 Nov 2026 15:00:00 GMT".
std::optional<std::chrono::system_clock::time_point> parse_http_date(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

std::string explanation_of_refusal(const std::string& code, const std::string& doing) {
  if (code == "SignatureDoesNotMatch")
    return "the secret access key is not that of this id, or something on the way changes requests";
  if (code == "InvalidAccessKeyId") return "the server does not know this id";
  if (is_one_of(code, {"ExpiredToken", "InvalidToken", "TokenRefreshRequired"}))
    return "they have expired or are damaged; sign in anew";
  if (code == "RequestTimeTooSkewed") return "the clock of this machine is wrong";
  return fmt::format(
      "they may not {} this; if they may not list the bucket, S3 reports the same for objects that do not "
      "exist",
      doing);
}

/// S3 takes requests whose time differs from its own by less than 15 minutes. Other servers may take less.
constexpr std::chrono::minutes kMostSkew{4};

}  // namespace

std::string S3Answer::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

/// The result of one try.
struct S3Client::Try {
  S3Answer answer;
  std::string failure;  ///< why there is no whole answer
  bool may_pass = false;
  bool cancelled = false;
  bool maybe_done = false;
  std::string region;  ///< that the bucket is in, where the answer says so
};

S3Client::S3Client(std::string bucket, const S3Options& options)
    : bucket_(std::move(bucket)),
      options_(with_variables(options)),
      config_(*options.environment),
      http_(ca_file(*options.environment, config_),
            aws_variable(*options.environment, "SSL_CERT_DIR").value_or("")),
      credentials_({.environment = options.environment, .config = &config_, .http = &http_}),
      region_(s3_region(*options.environment, config_)),
      workers_(options.connections) {
  if (region_.empty()) region_ = "us-east-1";  // whose servers know the region of each bucket
  endpoint_ = s3_endpoint(*options.environment, config_, bucket_, region_);
}

S3Endpoint S3Client::endpoint() const {
  std::lock_guard lock(mutex_);
  return endpoint_;
}

HttpAnswer S3Client::send_once(const S3Request& request, const Credentials& credentials, std::size_t done) {
  SigningScope scope{"", "s3", std::chrono::system_clock::now()};
  S3Endpoint endpoint;
  {
    std::lock_guard lock(mutex_);
    endpoint = endpoint_;
    scope.region = region_;
    scope.time += clock_offset_;
  }
  RequestToSign to_sign{request.method, endpoint.path + "/" + uri_encode(request.key, true), request.query,
                        request.headers, sha256_hex(request.body)};
  if (request.range_from) {
    const std::uint64_t first = *request.range_from + done,
                        last = *request.range_from + request.into.size() - 1;
    to_sign.headers.emplace_back("range", fmt::format("bytes={}-{}", first, last));
  }
  to_sign.headers.emplace_back("x-amz-content-sha256", to_sign.payload_hash);
  to_sign.headers.emplace_back("host", endpoint.host);
  for (auto& header : signature_headers(to_sign, credentials.keys, scope))
    to_sign.headers.push_back(std::move(header));
  HttpRequest http{.method = request.method,
                   .url = fmt::format("{}://{}{}", endpoint.scheme, endpoint.host, to_sign.path),
                   .headers = std::move(to_sign.headers),
                   .body = request.body,
                   .into = request.into.subspan(done),
                   .connect_timeout = options_.connect_timeout,
                   .stall_timeout = options_.stall_timeout,
                   .cancellation = request.cancellation};
  if (!request.query.empty()) http.url += "?" + query_string(request.query);
  return http_.send(http);
}

S3Client::Try S3Client::look_at(const S3Request& request, HttpAnswer http, std::size_t& done) const {
  Try tried;
  tried.answer.status = http.status;
  tried.answer.headers = std::move(http.headers);
  tried.answer.body = std::move(http.body);
  S3Answer& answer = tried.answer;
  const bool is_range = request.range_from && answer.status == 206;
  const std::string begin = is_range ? fmt::format("bytes {}-", *request.range_from + done) : "";
  if (is_range && !answer.header("content-range").starts_with(begin)) {
    tried.failure =
        fmt::format("it sends the range \"{}\" instead of \"{}...\"", answer.header("content-range"), begin);
    tried.may_pass = true;
    return tried;
  }
  done += http.received;
  if (!http.failure.empty()) {
    tried.failure = http.failure;
    tried.may_pass = http.may_pass;
    tried.cancelled = http.cancelled;
    tried.maybe_done = http.was_sent;
    return tried;
  }
  if (is_range) {
    if (done < request.into.size()) {
      tried.failure = fmt::format("it stopped after {} of {} bytes", done, request.into.size());
      tried.may_pass = true;
    }
    return tried;
  }
  const bool expects_xml = answer.status == 200 && !request.root.empty();
  if ((answer.status < 300 && !expects_xml) || answer.body.empty()) {
    if (expects_xml) {
      tried.failure = "its answer is empty";
      tried.may_pass = true;
    }
  } else {
    XmlElement root;
    try {
      root = parse_xml(answer.body);
    } catch (const StorageError& error) {
      if (expects_xml) tried.failure = error.what();
      tried.may_pass = expects_xml;
      answer.message = answer.body.substr(0, 200);
    }
    if (const XmlElement* error = root.find("Error")) {
      answer.code = error->text_of("Code");
      answer.message = error->text_of("Message");
      tried.region = error->text_of("Region");
      if (expects_xml) answer.status = 500;  // what went wrong after S3 had begun to answer
    } else if (expects_xml && tried.failure.empty() && root.name != request.root) {
      tried.failure = fmt::format("it answers <{}> instead of <{}>", root.name, request.root);
      tried.may_pass = true;
    }
  }
  if (answer.status >= 300 && tried.region.empty()) tried.region = answer.header("x-amz-bucket-region");
  const int status = answer.status;
  tried.maybe_done = status >= 500 || !tried.failure.empty();
  if (status == 408 || status == 429 || (status >= 500 && status != 501) ||
      (status == 409 && request.method == "PUT") ||
      is_one_of(answer.code, {"RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable",
                              "OperationAborted", "Throttling", "ThrottlingException", "IncompleteBody",
                              "BadDigest", "XAmzContentSHA256Mismatch", "PriorRequestNotComplete"})) {
    tried.may_pass = true;
  }
  return tried;
}

/// Whether a rejection contains information with which the next try can succeed.
bool S3Client::adapt(const Try& tried, const Credentials& credentials, bool& region_followed, bool& clock_set,
                     bool& credentials_renewed) {
  const S3Answer& answer = tried.answer;
  if (!tried.failure.empty() || answer.status < 300) return false;
  const bool elsewhere =
      answer.status == 301 || answer.status == 307 || answer.status == 400 || answer.status == 403;
  if (elsewhere && !tried.region.empty() && !region_followed) {
    std::lock_guard lock(mutex_);
    if (tried.region != region_) {
      region_followed = true;
      logging::debug("s3://{} is in {}, not in {}", bucket_, tried.region, region_);
      region_ = tried.region;
      endpoint_ = s3_endpoint(*options_.environment, config_, bucket_, region_);
      return true;
    }
  }
  // HEAD is answered without a reason: then the date tells whether it may be the clock.
  const bool skewed = answer.code == "RequestTimeTooSkewed";
  if ((skewed || (answer.status == 403 && answer.code.empty())) && !clock_set) {
    if (const auto time = parse_http_date(answer.header("date"))) {
      const auto offset = *time - std::chrono::system_clock::now();
      std::lock_guard lock(mutex_);
      if (skewed || std::chrono::abs(offset - clock_offset_) > kMostSkew) {
        clock_set = true;
        clock_offset_ = std::chrono::duration_cast<decltype(clock_offset_)>(offset);
        return true;
      }
    }
  }
  const bool expired = is_one_of(answer.code, {"ExpiredToken", "TokenRefreshRequired", "InvalidToken"});
  const bool may_be_expired = answer.status == 400 && answer.code.empty();  // no reason, as HEAD is answered
  if ((expired || may_be_expired) && !credentials_renewed) {
    credentials_renewed = true;
    credentials_.refused(credentials);
    return true;
  }
  return false;
}

void S3Client::give_up(const S3Request& request, const Try& tried, const Credentials& credentials, int tries,
                       bool maybe_done, Steady::time_point since) const {
  const S3Answer& answer = tried.answer;
  const std::string host = endpoint().host;
  std::string what = fmt::format("cannot {} {}: ", request.doing, shown(request));
  if (tried.cancelled)
    fail<StorageError>("{}given up, because another part has failed or it is no longer needed", what);
  if (!tried.failure.empty()) {
    what += fmt::format("{}: {}", host, tried.failure);
  } else {
    what += fmt::format("{} answers HTTP status {}", host, answer.status);
    if (!answer.code.empty()) what += ", " + answer.code;
    if (!answer.message.empty()) what += ": " + answer.message;
    if (answer.code.empty() && request.method == "HEAD") what += " (S3 gives no reason for this method)";
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - since).count();
  what +=
      fmt::format(" (tried {} in {:.1f} s", tries == 1 ? "once" : fmt::format("{} times", tries), seconds);
  const std::string id = answer.header("x-amz-request-id");
  if (!id.empty()) what += ", request id " + id;
  what += ")";
  if (tried.failure.empty() && (answer.status == 403 || answer.status == 401 ||
                                is_one_of(answer.code, {"ExpiredToken", "InvalidToken"}))) {
    what += fmt::format(". It was signed with {}: {}", credentials.described(),
                        explanation_of_refusal(answer.code, request.doing));
  } else if (tried.failure.empty() && (answer.status == 301 || answer.status == 307)) {
    what += fmt::format(". The bucket is elsewhere{}; set AWS_REGION or the endpoint",
                        tried.region.empty() ? "" : ", in " + tried.region);
  }
  if (maybe_done) throw MaybeDoneError(what);
  throw StorageError(what);
}

S3Answer S3Client::send(const S3Request& request, std::initializer_list<int> accepted) {
  const auto since = Steady::now();
  const Cancellation never;
  const Cancellation& cancellation = request.cancellation != nullptr ? *request.cancellation : never;
  RetryPolicy retries = options_.retries;
  if (request.tries > 0) retries.tries = request.tries;
  bool region_followed = false, clock_set = false, credentials_renewed = false;
  bool maybe_done = false;
  std::size_t done = 0;
  for (int tries = 1;; ++tries) {
    Credentials credentials;
    try {
      credentials = credentials_.get();
    } catch (const StorageError& error) {
      fail<StorageError>("cannot {} {}: {}", request.doing, shown(request), error.what());
    }
    Try tried = look_at(request, send_once(request, credentials, done), done);
    if (tried.failure.empty() &&
        std::find(accepted.begin(), accepted.end(), tried.answer.status) != accepted.end())
      return std::move(tried.answer);
    maybe_done |= tried.maybe_done;
    if (adapt(tried, credentials, region_followed, clock_set, credentials_renewed)) {
      --tries;
      continue;
    }
    if (!tried.may_pass || tries >= retries.tries)
      give_up(request, tried, credentials, tries, maybe_done, since);
    long asked_for = 0;
    const std::string after = tried.answer.header("retry-after");
    std::from_chars(after.data(), after.data() + after.size(), asked_for);
    const auto wait = retries.wait_after(tries, std::chrono::seconds(std::clamp(asked_for, 0L, 3600L)));
    if (tries >= kTellFromTry) {
      logging::warning("cannot {} {}: {} (try {} of {}); again in {:.1f} s", request.doing, shown(request),
                       tried.failure.empty()
                           ? fmt::format("HTTP status {} {}", tried.answer.status, tried.answer.code)
                           : tried.failure,
                       tries, retries.tries, std::chrono::duration<double>(wait).count());
    }
    if (cancellation.wait_for(wait)) {
      tried.cancelled = true;
      give_up(request, tried, credentials, tries, maybe_done, since);
    }
  }
}

}  // namespace lockstep::storage
