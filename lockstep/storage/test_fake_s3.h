// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/storage/sigv4.h"
#include "lockstep/storage/test_http_server.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {

/// The fault of one request.
enum class Fault {
  kNone,
  kInternalError,  ///< 500
  kSlowDown,       ///< 503
  kTooMany,        ///< 429, without a body
  kTimeout,        ///< 400 RequestTimeout, for a request with a body
  kBadGateway,     ///< 502 with HTML
  kDropBefore,     ///< the connection is closed, and nothing was done
  kDropAfter,      ///< it was done, and the connection is closed without an answer
  kStopShort,      ///< it was done, and the answer is cut off
  kErrorIn200,     ///< nothing was done, and the status is 200 with an error in the body
  kStall,          ///< it was done, and the answer is delayed by two seconds
};

/// The objects of one bucket in memory, with the part of S3's protocol that Lockstep uses. Signatures are not
/// verified; hashes of bodies are.
class FakeS3 {
 public:
  struct Object {
    std::string bytes, tag, writer;
  };
  struct Upload {
    std::string key, writer;
    std::map<int, std::string> parts;
  };

  std::map<std::string, Object> objects;
  std::map<std::string, Upload> uploads;
  std::size_t page = 1000;            ///< entries in each answer of a list
  bool honours_conditions = true;     ///< supports If-None-Match and If-Match
  std::vector<TestRequest> requests;  ///< all so far, without their bodies
  std::function<Fault(std::size_t number, const TestRequest&)> fault;  ///< called with the number of the
                                                                       ///< request, from 1

  /// An answer that replaces the usual one, if it is set.
  std::function<std::optional<TestReply>(const TestRequest&)> instead;

  std::mutex mutex;  ///< for all of these, while requests are in progress

  /// Sets the fault from now on, while requests may be in progress.
  void set_fault(std::function<Fault(std::size_t, const TestRequest&)> from_now_on) {
    std::lock_guard lock(mutex);
    fault = std::move(from_now_on);
  }

  TestReply operator()(const TestRequest& request) {
    std::lock_guard lock(mutex);
    requests.push_back(request);
    requests.back().body.clear();
    const Fault wrong = fault ? fault(requests.size(), request) : Fault::kNone;
    switch (wrong) {
      case Fault::kInternalError:
        return error(500, "InternalError");
      case Fault::kSlowDown:
        return error(503, "SlowDown");
      case Fault::kTooMany:
        return {.status = 429};
      case Fault::kTimeout:
        return request.body.empty() ? error(500, "InternalError") : error(400, "RequestTimeout");
      case Fault::kBadGateway:
        return {.status = 502, .body = "<html><br></html>"};
      case Fault::kDropBefore:
        return {.drop = true};
      case Fault::kErrorIn200:
        if (request.method != "POST") return error(500, "InternalError");
        return {.status = 200, .body = error(500, "InternalError").body};
      default:
        break;
    }
    std::optional<TestReply> other = instead ? instead(request) : std::nullopt;
    TestReply reply = other ? *other : answer(request);
    reply.headers.emplace_back("x-amz-request-id", fmt::format("REQUEST{}", requests.size()));
    if (wrong == Fault::kDropAfter) reply.drop = true;
    if (wrong == Fault::kStopShort)
      reply.stops_after = request.method == "HEAD" ? 20 : 60 + reply.body.size() / 2;
    if (wrong == Fault::kStall) reply.delay = std::chrono::milliseconds(3500);
    return reply;
  }

  static TestReply error(int status, const std::string& code) {
    return {.status = status,
            .body = fmt::format(
                "<?xml version=\"1.0\"?>\n<Error><Code>{}</Code><Message>This is {}.</Message></Error>", code,
                code)};
  }

 private:
  static std::string quoted_hash(const std::string& bytes) {
    return "\"" + sha256_hex(bytes).substr(0, 32) + "\"";
  }

  TestReply answer(const TestRequest& request) {
    if (request.header("x-amz-content-sha256") != sha256_hex(request.body))
      return error(400, "XAmzContentSHA256Mismatch");
    const std::string root = "/bucket/";
    if (!request.path.starts_with(root)) return error(404, "NoSuchBucket");
    const std::string key = request.path.substr(root.size());
    if (request.method == "GET" && key.empty())
      return request.has("uploads") ? list_uploads(request) : list(request);
    if (request.has("uploads")) return begin_upload(request, key);
    if (request.has("uploadId")) return with_upload(request, key);
    const auto found = objects.find(key);
    const bool there = found != objects.end();
    const std::string match = honours_conditions ? request.header("if-match") : "";
    if (!match.empty() && there && match != found->second.tag) return error(412, "PreconditionFailed");
    if (request.method == "PUT") {
      if (there && honours_conditions && request.header("if-none-match") == "*")
        return error(412, "PreconditionFailed");
      objects[key] = {request.body, quoted_hash(request.body), request.header("x-amz-meta-lockstep-writer")};
      return {.headers = {{"etag", objects[key].tag}}};
    }
    if (request.method == "DELETE") {
      objects.erase(key);
      return {.status = 204};
    }
    if (!there) return error(404, "NoSuchKey");
    TestReply reply{
        .headers = {{"etag", found->second.tag}, {"x-amz-meta-lockstep-writer", found->second.writer}}};
    const std::string& bytes = found->second.bytes;
    if (request.method == "HEAD") {
      reply.headers.emplace_back("content-length", std::to_string(bytes.size()));
      return reply;
    }
    unsigned long long first = 0, last = 0;
    if (std::sscanf(request.header("range").c_str(), "bytes=%llu-%llu", &first, &last) == 2) {
      if (first >= bytes.size()) return error(416, "InvalidRange");
      last = std::min<unsigned long long>(last, bytes.size() - 1);
      reply.status = 206;
      reply.headers.emplace_back("content-range", fmt::format("bytes {}-{}/{}", first, last, bytes.size()));
      reply.body = bytes.substr(first, last - first + 1);
    } else {
      reply.body = bytes;
    }
    return reply;
  }

  TestReply begin_upload(const TestRequest& request, const std::string& key) {
    const std::string id = fmt::format("upload+{}/=", ++uploads_begun_);
    uploads[id] = {key, request.header("x-amz-meta-lockstep-writer"), {}};
    return {
        .body = fmt::format(
            "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>", id)};
  }

  TestReply with_upload(const TestRequest& request, const std::string& key) {
    const auto found = uploads.find(request.query.at("uploadId"));
    if (found == uploads.end() || found->second.key != key) return error(404, "NoSuchUpload");
    Upload& upload = found->second;
    if (request.method == "DELETE") {
      uploads.erase(found);
      return {.status = 204};
    }
    if (request.method == "PUT") {
      upload.parts[std::stoi(request.query.at("partNumber"))] = request.body;
      return {.headers = {{"etag", quoted_hash(request.body)}}};
    }
    if (objects.count(key) > 0 && honours_conditions && request.header("if-none-match") == "*")
      return error(412, "PreconditionFailed");
    std::string bytes;
    for (const XmlElement& part : parse_xml(request.body).children) {
      const auto it = upload.parts.find(std::stoi(part.text_of("PartNumber")));
      if (it == upload.parts.end() || part.text_of("ETag") != quoted_hash(it->second))
        return error(400, "InvalidPart");
      bytes += it->second;
    }
    objects[key] = {bytes, quoted_hash(bytes), upload.writer};
    uploads.erase(found);
    return {.body = "<CompleteMultipartUploadResult><Key>x</Key></CompleteMultipartUploadResult>"};
  }

  TestReply list(const TestRequest& request) {
    const std::string prefix = request.query.at("prefix"), delimiter = request.has("delimiter") ? "/" : "";
    std::size_t most = request.has("max-keys") ? std::stoull(request.query.at("max-keys")) : page;
    most = std::min(most, page);
    std::map<std::string, std::string> entries;
    for (const auto& [key, object] : objects) {
      if (!key.starts_with(prefix)) continue;
      const auto slash = delimiter.empty() ? key.npos : key.find('/', prefix.size());
      const std::string name = key.substr(0, slash == key.npos ? slash : slash + 1);
      const std::string shown = uri_encode(name, true);
      entries[name] =
          slash != key.npos
              ? fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", shown)
              : fmt::format("<Contents><Key>{}</Key><Size>{}</Size></Contents>", shown, object.bytes.size());
    }
    const std::string after = request.has("continuation-token") ? request.query.at("continuation-token") : "";
    std::string body = "<ListBucketResult><EncodingType>url</EncodingType>", last;
    bool truncated = false;
    for (auto it = entries.upper_bound(after); it != entries.end(); ++it) {
      if (most == 0) {
        truncated = true;
        break;
      }
      body += it->second;
      last = it->first;
      --most;
    }
    body += fmt::format("<IsTruncated>{}</IsTruncated>", truncated);
    if (truncated) body += fmt::format("<NextContinuationToken>{}</NextContinuationToken>", xml_escape(last));
    return {.body = body + "</ListBucketResult>"};
  }

  TestReply list_uploads(const TestRequest& request) {
    std::string body = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>";
    for (const auto& [id, upload] : uploads) {
      if (!upload.key.starts_with(request.query.at("prefix"))) continue;
      body +=
          fmt::format("<Upload><Key>{}</Key><UploadId>{}</UploadId></Upload>", xml_escape(upload.key), id);
    }
    return {.body = body + "</ListMultipartUploadsResult>"};
  }

  int uploads_begun_ = 0;
};

}  // namespace lockstep::storage
