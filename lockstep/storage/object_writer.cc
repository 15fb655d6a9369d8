// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/object_writer.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {
namespace {

constexpr int kMostParts = 10'000;
constexpr std::uint64_t kLargestObject = std::uint64_t{5} << 40;

/// So many parts are of one size.
constexpr int kEqualParts = 2000;
constexpr std::uint64_t kGrowth = 168 << 10;

/// Tells the object that this writer makes from another's of the same name.
constexpr const char* kWriterHeader = "x-amz-meta-lockstep-writer";

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

class ObjectWriter : public Writer {
 public:
  ObjectWriter(std::shared_ptr<S3Client> client, std::string key)
      : client_(std::move(client)),
        key_(std::move(key)),
        url_(client_->url(key_)),
        writer_(random_name()),
        part_bytes_(part_size(1, client_->options().part_bytes)),
        parts_(client_->workers()) {}

  ~ObjectWriter() override {
    if (state_ == State::kDone) return;
    parts_.cancel();
    try {
      try {
        parts_.wait();
      } catch (const StorageError&) {  // what has failed is known to who wrote
      }
      take_away();
    } catch (const std::exception& error) {
      logging::warning("{} was not finished, and what was uploaded of it could not be removed: {}", url_,
                       error.what());
    }
  }

  const std::string& url() const override { return url_; }

  void write(std::span<const std::byte> bytes) override {
    require_open();
    state_ = State::kFailed;
    while (!bytes.empty()) {
      if (buffer_.empty()) buffer_.reserve(part_bytes_);
      const std::size_t some = std::min<std::size_t>(bytes.size(), part_bytes_ - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(some));
      bytes = bytes.subspan(some);
      written_ += some;
      if (written_ > kLargestObject)
        fail<StorageError>("{} would have more than the 5 TiB that an object may have", url_);
      if (buffer_.size() == part_bytes_) upload_part();
    }
    state_ = State::kOpen;
  }

  void finish() override {
    require_open();
    state_ = State::kFailed;
    if (upload_.empty()) {
      put_whole();
    } else {
      if (!buffer_.empty()) upload_part();
      parts_.wait();
      complete();
    }
    state_ = State::kDone;
  }

 private:
  enum class State { kOpen, kFailed, kDone };

  void require_open() const {
    if (state_ == State::kDone) fail<StorageError>("cannot write {}: it is finished already", url_);
    if (state_ == State::kFailed) fail<StorageError>("cannot write {}: an earlier write has failed", url_);
  }

  S3Request request(const char* method) const { return {.doing = "write", .method = method, .key = key_}; }

  void upload_part() {
    if (upload_.empty()) {
      S3Request begin = request("POST");
      begin.query = {{"uploads", ""}};
      begin.headers = {{kWriterHeader, writer_}};
      begin.root = "InitiateMultipartUploadResult";
      upload_ = parse_xml(client_->send(begin, {200}).body).text_of("UploadId");
      if (upload_.empty()) fail<StorageError>("cannot write {}: the server gave no upload id", url_);
    }
    const int number = static_cast<int>(tags_.size()) + 1;
    if (number > kMostParts) fail<StorageError>("{} would have more than {} parts", url_, kMostParts);
    parts_.wait_for_room(buffer_.size(), client_->options().bytes_under_way);
    tags_.push_back(std::make_unique<std::string>());
    auto bytes = std::make_shared<std::vector<std::byte>>(std::exchange(buffer_, {}));
    parts_.run(bytes->size(),
               [this, number, bytes, tag = tags_.back().get()](const Cancellation& cancellation) {
                 S3Request part = request("PUT");
                 part.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_}};
                 part.body = *bytes;
                 part.cancellation = &cancellation;
                 *tag = client_->send(part, {200}).header("etag");
                 if (tag->empty())
                   fail<StorageError>("cannot write {}: the server gave no ETag for part {}", url_, number);
               });
    part_bytes_ = part_size(number + 1, client_->options().part_bytes);
  }

  void put_whole() {
    may_be_there_ = true;
    S3Request put = request("PUT");
    put.headers = {{"if-none-match", "*"}, {kWriterHeader, writer_}};
    put.body = buffer_;
    if (client_->send(put, {200, 412}).status == 412) require_own("it exists already");
  }

  void complete() {
    may_be_there_ = true;
    std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
    for (std::size_t i = 0; i < tags_.size(); ++i) {
      list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                          xml_escape(*tags_[i]));
    }
    list += "</CompleteMultipartUpload>";
    S3Request end = request("POST");
    end.query = {{"uploadId", upload_}};
    end.headers = {{"if-none-match", "*"}};
    end.body = std::as_bytes(std::span(list));
    end.root = "CompleteMultipartUploadResult";
    const S3Answer answer = client_->send(end, {200, 404, 412});
    // A try whose answer was lost may have completed it: then the upload no longer exists, or the object
    // already exists.
    if (answer.status == 404)
      require_own(fmt::format("the server does not know the upload any more ({})", answer.code));
    if (answer.status == 412) require_own("it exists already");
  }

  /// "" if there is no object with this name or it is another writer's; otherwise its tag.
  std::string tag_of_own(int tries) const {
    S3Request head = request("HEAD");
    head.tries = tries;
    const S3Answer answer = client_->send(head, {200, 404});
    return answer.status == 200 && answer.header(kWriterHeader) == writer_ ? answer.header("etag") : "";
  }

  void require_own(const std::string& otherwise) const {
    if (tag_of_own(0).empty()) fail<StorageError>("cannot write {}: {}", url_, otherwise);
  }

  void take_away() {
    constexpr int kTries = 3;
    if (!upload_.empty()) {
      S3Request abort{.doing = "abort the upload of", .method = "DELETE", .key = key_};
      abort.query = {{"uploadId", upload_}};
      abort.tries = kTries;
      client_->send(abort, {200, 204, 404});
    }
    if (!may_be_there_) return;
    const std::string tag = tag_of_own(kTries);
    if (tag.empty()) return;
    S3Request remove{.doing = "remove", .method = "DELETE", .key = key_};
    remove.headers = {{"if-match", tag}};
    remove.tries = kTries;
    client_->send(remove, {200, 204, 404, 412});
  }

  const std::shared_ptr<S3Client> client_;
  const std::string key_, url_, writer_;
  std::string upload_;  ///< its id; "" where there are no parts yet
  std::vector<std::byte> buffer_;
  std::uint64_t part_bytes_, written_ = 0;
  std::vector<std::unique_ptr<std::string>> tags_;  ///< of the parts; theirs until they are uploaded
  State state_ = State::kOpen;
  bool may_be_there_ = false;
  TaskGroup parts_;
};

}  // namespace

std::uint64_t part_size(int number, std::uint64_t first) {
  return first + (number > kEqualParts ? static_cast<std::uint64_t>(number - kEqualParts) * kGrowth : 0);
}

std::unique_ptr<Writer> create_object(std::shared_ptr<S3Client> client, std::string key) {
  return std::make_unique<ObjectWriter>(std::move(client), std::move(key));
}

}  // namespace lockstep::storage
