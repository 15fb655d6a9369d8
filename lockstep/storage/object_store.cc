// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/object_store.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/storage/object_reader.h"
#include "lockstep/storage/object_writer.h"
#include "lockstep/storage/schemes.h"
#include "lockstep/storage/url.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {
namespace {

/// A file in the folder of an attempt that identifies its owner.
constexpr const char* kAttemptMark = ".lockstep-attempt";

/// Another one, which says what becomes of the attempt. Whoever writes it first decides: its publisher, who
/// puts the manifest into it, or a process that takes the publisher for dead.
constexpr const char* kDecision = ".lockstep-decision";
constexpr std::string_view kPublish = "publish\n", kEnd = "end\n";

/// A manifest that others have published and removed while it was looked at, so often, is a fault.
constexpr int kMostRaces = 20;

/// S3 takes other names too, but servers and proxies on the way do not all leave them as they are.
void require_name(const std::string& name) {
  std::size_t begin = 0;
  for (bool last = false; !last;) {
    const auto slash = name.find('/', begin);
    last = slash == name.npos;
    const std::string part = name.substr(begin, last ? name.npos : slash - begin);
    if (part.empty() || part == "." || part == "..")
      fail<StorageError>("\"{}\" is not a name in an object store: a part of it is \"{}\"", name, part);
    begin = slash + 1;
  }
}

Location locate_object(const std::string& url) {
  Location place = locate(url);
  if (place.scheme != "s3")
    fail<StorageError>("\"{}\" is not the URL of an object store; expected s3://bucket/prefix",
                       printable(url));
  return place;
}

class ObjectStore : public Store {
  struct Manifest {
    std::string name, bytes;
  };

 public:
  ObjectStore(std::shared_ptr<S3Client> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}

  /// Throws if the bucket cannot be listed.
  void reach() const {
    pages(folder_key(""), "/", 1, [](const XmlElement&) { return false; });
  }

  std::string url(const std::string& name) const override { return client_->url(join(name)); }

  std::unique_ptr<Reader> open(const std::string& name) const override {
    auto reader = find_object(client_, key(name));
    if (reader == nullptr) fail<StorageError>("cannot open {}: there is no such object", url(name));
    return reader;
  }

  bool exists(const std::string& name) const override {
    return client_->send({.doing = "look for", .method = "HEAD", .key = key(name)}, {200, 404}).status == 200;
  }

  std::vector<Entry> list(const std::string& folder) const override {
    const std::string below = folder_key(folder);
    std::vector<Entry> entries;
    auto add = [&](std::string name, bool is_folder, std::uint64_t bytes) {
      if (is_folder && name.ends_with('/')) name.pop_back();
      if (!name.empty()) entries.push_back({std::move(name), is_folder, bytes});
    };
    pages(below, "/", 0, [&](const XmlElement& page) {
      const bool encoded = page.text_of("EncodingType") == "url";
      auto name = [&](const std::string& text) {
        const std::string whole = encoded ? uri_decode(text) : text;
        if (!whole.starts_with(below))
          fail<StorageError>("cannot list {}: the server names \"{}\", which is not in it", url(folder),
                             whole);
        return whole.substr(below.size());
      };
      for (const XmlElement& element : page.children) {
        if (element.name == "CommonPrefixes") {
          add(name(element.text_of("Prefix")), true, 0);
        } else if (element.name == "Contents") {
          add(name(element.text_of("Key")), false,
              std::strtoull(element.text_of("Size").c_str(), nullptr, 10));
        }
      }
      return true;
    });
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.name, a.is_folder) < std::pair(b.name, b.is_folder);
    });
    return entries;
  }

  std::unique_ptr<Writer> create(const std::string& name) override {
    if (exists(name)) fail<StorageError>("cannot create {}: it exists already", url(name));
    return create_object(client_, key(name));
  }

  Attempt begin(const std::string& folder, const std::string& nonce) override {
    if (nonce.find('/') != nonce.npos) fail<StorageError>("\"{}\" is not a nonce: it has a /", nonce);
    const Attempt attempt{folder.empty() ? nonce : folder + "/" + nonce, nonce + "/"};
    const std::string mark = attempt.folder + "/" + kAttemptMark;
    if (!put_first("begin", mark, new_text()))
      fail<StorageError>("cannot begin {}: this nonce was used before", url(attempt.folder));
    require_conditions(mark);
    return attempt;
  }

  bool has(const Attempt& attempt) const override { return exists(attempt.folder + "/" + kAttemptMark); }

  /// If the publisher has decided before, and its files are there as the mark says, they are whole: then this
  /// publishes them in its place. The mark stays for the publisher, should it live.
  std::optional<Attempt> end(const Attempt& attempt, const std::string& manifest) override {
    const std::string nonce = attempt.prefix.substr(0, attempt.prefix.find('/'));
    const std::string name = in(attempt.folder.substr(0, attempt.folder.size() - nonce.size()), manifest);
    const std::string decision = attempt.folder + "/" + kDecision, end = std::string(kEnd) + new_text();
    for (int race = 0; race < kMostRaces; ++race) {
      std::string decided = end;
      if (!put_first("end", decision, end)) {
        const auto there = find_object(client_, key(decision));
        if (there == nullptr) continue;
        decided = read_whole(*there);
      }
      if (decided.starts_with(kPublish) && has(attempt)) {
        put_first("publish", name, std::string_view(decided).substr(kPublish.size()));
        remove_object(decision);
        return std::nullopt;
      }
      // An attempt that was published before this decision has no decision any more.
      const bool published = has_manifest(name, nonce);
      if (published) remove_object(decision);
      remove_object(attempt.folder + "/" + kAttemptMark);
      if (published) return std::nullopt;
      const std::lock_guard lock(mutex_);
      ended_.insert(attempt.folder);
      return attempt;
    }
    fail<StorageError>("cannot end {}: other processes begin and end it again and again",
                       url(attempt.folder));
  }

  bool publish(const Attempt& attempt, const std::string& folder, const std::string& manifest,
               std::string_view bytes) override {
    const std::string name = in(folder, manifest), decision = attempt.folder + "/" + kDecision;
    try {
      if (!put_first("publish", decision, std::string(kPublish).append(bytes))) fail_ended(attempt);
    } catch (const MaybeDoneError&) {
      settle_later(attempt, name, bytes);
      throw;
    }
    bool ended = false, published = false;
    try {
      ended = !has(attempt);
      if (!ended) {
        published = put_first("publish", name, bytes);
        // Another process may have published it before, and then removed it with its files.
        ended = published && !has(attempt);
        if (ended) remove_manifest(name, "", std::string(bytes));
      } else {
        // Or published by an earlier call.
        const auto there = find_object(client_, key(name));
        ended = there == nullptr || read_whole(*there) != bytes;
        published = !ended;
      }
      if (ended || !published) remove_object(decision);
    } catch (const StorageError&) {
      settle_later(attempt, name, bytes);
      throw;
    }
    if (ended) fail_ended(attempt);
    if (!published) return false;
    try {
      remove_object(decision);
      remove_object(attempt.folder + "/" + kAttemptMark);
    } catch (const StorageError& error) {  // published it is
      logging::warning("{} is published; a mark of its attempt is left: {}", url(folder), error.what());
    }
    return true;
  }

  /// The decision of another process stays until its publisher finds no mark; one's own goes before the files
  /// that it speaks of.
  void discard(const Attempt& attempt, const std::vector<std::string>& names) override {
    require_unpublished(attempt.folder);
    bool ended = false;
    {
      const std::lock_guard lock(mutex_);
      ended = ended_.erase(attempt.folder) > 0;
    }
    const std::string decision = attempt.folder + "/" + kDecision;
    if (!ended) remove_object(decision);
    abort_uploads(attempt.folder);
    remove_objects(attempt.folder, names);
    remove_object(attempt.folder + "/" + kAttemptMark);
    if (ended) remove_object(decision);
  }

  void remove(const std::string& folder, const std::string& manifest, const std::vector<std::string>& names,
              const std::optional<std::string>& only) override {
    const std::string name = in(folder, manifest), record = name + kRemoved;
    // A publisher that was killed after its manifest has left its decision, by which it would be published
    // again.
    const std::string within = name.substr(0, name.size() - std::min(name.size(), manifest.size() + 1));
    for (const Entry& inner : list(within))
      if (inner.is_folder) remove_object(in(within, inner.name) + "/" + kDecision);
    if (!remove_manifest(name, record, only)) return remove_object(record);
    std::set<std::string> files(names.begin(), names.end());
    for (const std::string& file : names) {
      if (const auto slash = file.find('/'); slash != file.npos)
        files.insert(file.substr(0, slash + 1) + kAttemptMark);
    }
    remove_objects(folder, {files.begin(), files.end()});
    remove_object(record);
  }

  void remove_files(const std::string& folder, const std::vector<std::string>& names) override {
    remove_objects(folder, names);
  }

 private:
  static std::string in(std::string folder, const std::string& name) {
    while (folder.ends_with('/')) folder.pop_back();
    return folder.empty() ? name : folder + "/" + name;
  }

  [[noreturn]] void fail_ended(const Attempt& attempt) const {
    fail<StorageError>(
        "cannot publish {}: another process took it for the attempt of a dead process, and removed it",
        url(attempt.folder));
  }

  /// Unique, so that its writer recognizes it.
  static std::string new_text() {
    std::random_device random;
    return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
  }

  bool has_manifest(const std::string& name, const std::string& nonce) const {
    const auto there = find_object(client_, key(name));
    return there != nullptr && read_whole(*there).find(nonce) != std::string::npos;
  }

  void settle_later(const Attempt& attempt, const std::string& name, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    unsettled_[attempt.folder] = {name, std::string(bytes)};
  }

  /// Removes the manifest, after copying it to `record` if that is given. Returns false if another one, with
  /// other bytes than `only` or published meanwhile, is there, which stays.
  bool remove_manifest(const std::string& name, const std::string& record = "",
                       const std::optional<std::string>& only = std::nullopt) {
    const S3Answer found = client_->send({.doing = "remove", .method = "HEAD", .key = key(name)}, {200, 404});
    if (found.status == 404) return true;
    if (!record.empty() || only) {
      const auto there = find_object(client_, key(name));
      if (there == nullptr) return true;
      const std::string bytes = read_whole(*there);
      if (only && bytes != *only) return false;
      if (!record.empty()) {
        S3Request put{.doing = "remove", .method = "PUT", .key = key(record)};
        put.body = std::as_bytes(std::span(bytes));
        client_->send(put, {200});
      }
    }
    // If an answer is lost and another writer publishes before the next try, the new object is kept.
    S3Request request{.doing = "remove", .method = "DELETE", .key = key(name)};
    if (const std::string tag = found.header("etag"); !tag.empty()) request.headers = {{"if-match", tag}};
    return client_->send(request, {200, 204, 404, 412}).status != 412;
  }

  std::string join(const std::string& name) const {
    return prefix_.empty() ? name : name.empty() ? prefix_ : prefix_ + "/" + name;
  }

  std::string key(const std::string& name) const {
    require_name(name);
    return join(name);
  }

  /// The prefix of the keys in a folder.
  std::string folder_key(const std::string& folder) const {
    if (!folder.empty()) require_name(folder);
    const std::string joined = join(folder);
    return joined.empty() ? "" : joined + "/";
  }

  /// Hands the pages of a list to `take` until it returns false. `most`: keys of a page; 0: as the server
  /// likes.
  void pages(const std::string& below, const std::string& delimiter, int most,
             const std::function<bool(const XmlElement&)>& take) const {
    std::string next;
    do {
      S3Request request{.doing = "list", .method = "GET", .prefix = below};
      request.query = {{"list-type", "2"}, {"prefix", below}, {"encoding-type", "url"}};
      if (!delimiter.empty()) request.query.emplace_back("delimiter", delimiter);
      if (most > 0) request.query.emplace_back("max-keys", std::to_string(most));
      if (!next.empty()) request.query.emplace_back("continuation-token", next);
      request.root = "ListBucketResult";
      const XmlElement page = parse_xml(client_->send(request, {200}).body);
      if (!take(page)) return;
      const std::string before = std::exchange(next, "");
      if (page.text_of("IsTruncated") == "true") next = page.text_of("NextContinuationToken");
      if (page.text_of("IsTruncated") == "true" && (next.empty() || next == before))
        fail<StorageError>("cannot list {}: the server says that there is more, but not where it begins",
                           client_->url(below));
    } while (!next.empty());
  }

  /// Creates an object if there is none; returns whether this call did. The bytes are unique, so that the
  /// object can be recognized if an answer was lost.
  bool put_first(const char* doing, const std::string& name, std::string_view bytes) {
    S3Request put{.doing = doing, .method = "PUT", .key = key(name)};
    put.headers = {{"if-none-match", "*"}};
    put.body = std::as_bytes(std::span(bytes));
    for (int race = 0; race < kMostRaces; ++race) {
      if (client_->send(put, {200, 412}).status == 200) return true;
      try {
        const auto there = find_object(client_, put.key);
        if (there != nullptr) return there->size() == bytes.size() && read_whole(*there) == bytes;
      } catch (const StorageError& error) {
        throw MaybeDoneError(error.what());
      }
    }
    fail<StorageError>("cannot {} {}: other processes make and remove it again and again", doing, url(name));
  }

  /// Throws if it is unknown whether this store has published the attempt, unless another one's manifest
  /// exists: its files may belong to a published folder, now or once the server has executed the request.
  void require_unpublished(const std::string& attempt) {
    Manifest manifest;
    {
      const std::lock_guard lock(mutex_);
      const auto found = unsettled_.find(attempt);
      if (found == unsettled_.end()) return;
      manifest = found->second;
    }
    const auto there = find_object(client_, key(manifest.name));
    if (there == nullptr)
      fail<StorageError>("the server did not say whether {} is published, so {} stays", url(manifest.name),
                         url(attempt));
    if (there->size() == manifest.bytes.size() && read_whole(*there) == manifest.bytes)
      fail<StorageError>("{} is published, though its answer was lost; {} stays", url(manifest.name),
                         url(attempt));
  }

  /// Throws if the server does not support If-None-Match, because then each of several publishers would
  /// believe to be the first. `there`: an existing object.
  void require_conditions(const std::string& there) {
    if (conditions_honoured_) return;
    S3Request put{.doing = "begin", .method = "PUT", .key = key(there)};
    put.headers = {{"if-none-match", "*"}};
    if (client_->send(put, {200, 412}).status == 200) {
      remove_object(there);
      fail<StorageError>(
          "cannot begin {}: this server overwrites objects in spite of If-None-Match: *, so nothing can be "
          "published on it; use a newer server",
          url(there));
    }
    conditions_honoured_ = true;
  }

  void remove_object(const std::string& name, const Cancellation* cancellation = nullptr) {
    S3Request request{.doing = "remove", .method = "DELETE", .key = key(name)};
    request.cancellation = cancellation;
    client_->send(request, {200, 204, 404});
  }

  void remove_objects(const std::string& folder, const std::vector<std::string>& names) {
    TaskGroup group(client_->workers());
    for (const std::string& name : names) {
      group.run(1, [this, path = folder.empty() ? name : folder + "/" + name](
                       const Cancellation& cancellation) { remove_object(path, &cancellation); });
    }
    group.wait();
  }

  /// Aborts unfinished uploads: S3 keeps their parts, and charges for them.
  void abort_uploads(const std::string& folder) {
    std::string key_marker, upload_marker;
    do {
      S3Request request{.doing = "list uploads to", .method = "GET", .prefix = folder_key(folder)};
      request.query = {{"uploads", ""}, {"prefix", folder_key(folder)}, {"encoding-type", "url"}};
      if (!key_marker.empty())
        request.query.insert(request.query.end(),
                             {{"key-marker", key_marker}, {"upload-id-marker", upload_marker}});
      request.root = "ListMultipartUploadsResult";
      const S3Answer answer = client_->send(request, {200, 403, 404, 501});
      if (answer.status != 200) {
        logging::debug("uploads to {} cannot be listed (HTTP status {} {}): those that are not finished stay",
                       url(folder), answer.status, answer.code);
        return;
      }
      const XmlElement page = parse_xml(answer.body);
      const bool encoded = page.text_of("EncodingType") == "url";
      auto text = [&](const XmlElement& of, const char* name) {
        return encoded ? uri_decode(of.text_of(name)) : of.text_of(name);
      };
      for (const XmlElement& upload : page.children) {
        if (upload.name != "Upload" || !text(upload, "Key").starts_with(folder_key(folder))) continue;
        S3Request abort{.doing = "abort the upload of", .method = "DELETE", .key = text(upload, "Key")};
        abort.query = {{"uploadId", upload.text_of("UploadId")}};
        client_->send(abort, {200, 204, 404});
      }
      key_marker = page.text_of("IsTruncated") == "true" ? text(page, "NextKeyMarker") : "";
      upload_marker = page.text_of("NextUploadIdMarker");
    } while (!key_marker.empty());
  }

  const std::shared_ptr<S3Client> client_;
  const std::string prefix_;
  std::atomic<bool> conditions_honoured_ = false;
  std::mutex mutex_;
  std::map<std::string, Manifest> unsettled_;  ///< of attempts whose publishing has no known end
  std::set<std::string> ended_;                ///< attempts that `end` has ended, until they are discarded
};

}  // namespace

std::unique_ptr<Store> open_object_store(const std::string& url, const S3Options& options) {
  const Location place = locate_object(url);
  if (!place.key.empty()) require_name(place.key);
  auto store = std::make_unique<ObjectStore>(std::make_shared<S3Client>(place.bucket, options), place.key);
  store->reach();
  return store;
}

std::unique_ptr<Reader> open_object(const std::string& url, const S3Options& options) {
  const Location place = locate_object(url);
  if (place.key.empty())
    fail<StorageError>("\"{}\" is a bucket, not an object; expected s3://bucket/key", printable(url));
  auto reader = find_object(std::make_shared<S3Client>(place.bucket, options), place.key);
  if (reader == nullptr) fail<StorageError>("cannot open {}: there is no such object", printable(url));
  return reader;
}

const Scheme kS3{"s3", [](const std::string& url) { return open_object_store(url); },
                 [](const std::string& url) { return open_object(url); }};

}  // namespace lockstep::storage
