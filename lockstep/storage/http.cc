// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/http.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/storage/libcurl.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {
namespace {

/// One request on its way.
struct Transfer {
  const HttpRequest& request;
  CURL* handle;
  HttpAnswer answer{};
  std::size_t sent = 0;
  std::string too_large{};
  bool headers_are_whole = false;
};

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* of) {
  auto& transfer = *static_cast<Transfer*>(of);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // those before were of a "100 Continue"
  transfer.headers_are_whole = line == "\r\n" || line == "\n";
  if (const auto colon = line.find(':'); colon != line.npos && !line.starts_with("HTTP/"))
    transfer.answer.headers[lower_case(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  return line.size();
}

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* of) {
  auto& transfer = *static_cast<Transfer*>(of);
  const std::size_t bytes = size * count;
  long status = 0;
  LibCurl::get().easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  HttpAnswer& answer = transfer.answer;
  if (status == transfer.request.into_status && !transfer.request.into.empty()) {
    const std::span<std::byte> left = transfer.request.into.subspan(answer.received);
    if (bytes > left.size()) {
      transfer.too_large =
          fmt::format("it is more than the {} bytes that were asked for", transfer.request.into.size());
      return 0;
    }
    std::memcpy(left.data(), data, bytes);
    answer.received += bytes;
  } else {
    if (answer.body.size() + bytes > transfer.request.largest_body) {
      transfer.too_large = fmt::format("it has more than {} bytes", transfer.request.largest_body);
      return 0;
    }
    answer.body.append(data, bytes);
  }
  return bytes;
}

std::size_t give_body(char* into, std::size_t size, std::size_t count, void* of) {
  auto& transfer = *static_cast<Transfer*>(of);
  const auto left = transfer.request.body.subspan(transfer.sent);
  const std::size_t bytes = std::min(size * count, left.size());
  if (bytes > 0) std::memcpy(into, left.data(), bytes);
  transfer.sent += bytes;
  return bytes;
}

int seek_body(void* of, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(of);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > transfer.request.body.size())
    return CURL_SEEKFUNC_FAIL;
  transfer.sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int look_at_cancellation(void* of, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<Transfer*>(of);
  return transfer.request.cancellation->cancelled() ? 1 : 0;
}

/// Whether another try may help: not if the address or the certificate is wrong.
bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_WRITE_ERROR:
    case CURLE_BAD_FUNCTION_ARGUMENT:
      return false;
    default:
      return true;
  }
}

/// A write to a connection that the other side has closed must not end the process: TLS libraries write
/// without asking for an error instead of a signal.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    pending_before_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!pending_before_) {
      while (sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool pending_before_ = false;
};

struct HeaderList {
  curl_slist* first = nullptr;
  ~HeaderList() { LibCurl::get().slist_free_all(first); }
  void add(const std::string& line) {
    curl_slist* longer = LibCurl::get().slist_append(first, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    first = longer;
  }
};

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

/// Handles that no request uses; each keeps its connections.
struct HttpClient::Transfers {
  std::mutex mutex;
  std::vector<CURL*> idle;
  std::atomic<long> connections = 0;

  CURL* take() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        CURL* handle = idle.back();
        idle.pop_back();
        return handle;
      }
    }
    CURL* handle = LibCurl::get().easy_init();
    if (handle == nullptr) throw std::bad_alloc();
    return handle;
  }

  void give_back(CURL* handle) {
    LibCurl::get().easy_reset(handle);
    std::lock_guard lock(mutex);
    idle.push_back(handle);
  }
};

HttpClient::HttpClient(std::string ca_file, std::string ca_folder)
    : ca_file_(std::move(ca_file)),
      ca_folder_(std::move(ca_folder)),
      transfers_(std::make_unique<Transfers>()) {}

HttpClient::~HttpClient() {
  const NoBrokenPipe no_signal;  // TLS says goodbye to servers that may be gone
  for (CURL* handle : transfers_->idle) LibCurl::get().easy_cleanup(handle);
}

long HttpClient::connections_made() const { return transfers_->connections; }

HttpAnswer HttpClient::send(const HttpRequest& request) {
  const NoBrokenPipe no_signal;
  struct Borrowed {
    Transfers& from;
    CURL* handle;
    ~Borrowed() { from.give_back(handle); }
  } borrowed{*transfers_, transfers_->take()};
  CURL* const handle = borrowed.handle;
  Transfer transfer{request, handle, {}};
  HeaderList headers;
  char detail[CURL_ERROR_SIZE] = "";
  auto set = [&](CURLoption option, auto value) {
    if (const CURLcode code = LibCurl::get().easy_setopt(handle, option, value); code != CURLE_OK) {
      fail<StorageError>("libcurl does not take an option ({}) for {}: {}", static_cast<int>(option),
                         request.url, LibCurl::get().easy_strerror(code));
    }
  };

  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  // Not taken by a handle whose last request has failed: then its buffers have this size already.
  LibCurl::get().easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  LibCurl::get().easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
  set(CURLOPT_USERAGENT, "lockstep");
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.stall_timeout.count() / 1000)));
  if (request.whole_timeout.count() > 0)
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.whole_timeout.count()));
  if (!request.proxies) set(CURLOPT_NOPROXY, "*");
  if (!ca_file_.empty()) set(CURLOPT_CAINFO, ca_file_.c_str());
  if (!ca_folder_.empty()) set(CURLOPT_CAPATH, ca_folder_.c_str());
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, &transfer);
  if (request.cancellation != nullptr) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &look_at_cancellation);
    set(CURLOPT_XFERINFODATA, &transfer);
  }
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &give_body);
    set(CURLOPT_READDATA, &transfer);
    set(CURLOPT_SEEKFUNCTION, &seek_body);
    set(CURLOPT_SEEKDATA, &transfer);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    if (request.method != "PUT") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  for (const auto& [name, value] : request.headers)
    headers.add(value.empty() ? name + ";" : name + ": " + value);
  set(CURLOPT_HTTPHEADER, headers.first);

  const CURLcode code = LibCurl::get().easy_perform(handle);
  HttpAnswer& answer = transfer.answer;
  long status = 0, made = 0, sent = 0;
  LibCurl::get().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  LibCurl::get().easy_getinfo(handle, CURLINFO_NUM_CONNECTS, &made);
  LibCurl::get().easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent);
  answer.status = static_cast<int>(status);
  transfers_->connections += made;
  if (code == CURLE_OK && !transfer.headers_are_whole) {
    answer.failure = "the connection has ended within the headers of the answer";
    answer.may_pass = answer.was_sent = true;
  }
  if (code != CURLE_OK) {
    answer.cancelled = code == CURLE_ABORTED_BY_CALLBACK;
    answer.may_pass = may_pass(code);
    answer.was_sent = sent > 0;
    if (!transfer.too_large.empty()) {
      answer.failure = "the answer is not taken: " + transfer.too_large;
    } else {
      answer.failure = detail[0] != 0 ? detail : LibCurl::get().easy_strerror(code);
    }
  }
  return std::move(answer);
}

}  // namespace lockstep::storage
