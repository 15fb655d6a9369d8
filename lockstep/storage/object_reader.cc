// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/object_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::storage {
namespace {

class ObjectReader : public Reader {
 public:
  ObjectReader(std::shared_ptr<S3Client> client, std::string key, std::uint64_t size, std::string tag)
      : client_(std::move(client)),
        key_(std::move(key)),
        url_(client_->url(key_)),
        size_(size),
        tag_(std::move(tag)) {}

  const std::string& url() const override { return url_; }
  std::uint64_t size() const override { return size_; }
  std::shared_ptr<const std::byte> map() const override { return nullptr; }

  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset > size_ || into.size() > size_ - offset) {
      fail<StorageError>("cannot read bytes {} to {} of {}: it has {} bytes", offset, offset + into.size(),
                         url_, size_);
    }
    if (into.empty()) return;
    const S3Options& options = client_->options();
    if (into.size() <= options.range_bytes) return read_range(offset, into, nullptr);
    // As many ranges as there are connections, or more if they would be too large for a retry.
    const std::size_t connections = static_cast<std::size_t>(std::max(1, options.connections));
    const std::size_t each = std::clamp((into.size() + connections - 1) / connections, options.range_bytes,
                                        8 * options.range_bytes);
    TaskGroup ranges(client_->workers());
    for (std::size_t done = 0; done < into.size(); done += each) {
      const auto part = into.subspan(done, std::min(each, into.size() - done));
      ranges.run(part.size(), [this, from = offset + done, part](const Cancellation& cancellation) {
        read_range(from, part, &cancellation);
      });
    }
    ranges.wait();
  }

 private:
  void read_range(std::uint64_t offset, std::span<std::byte> into, const Cancellation* cancellation) const {
    S3Request get{.doing = "read", .method = "GET", .key = key_};
    get.range_from = offset;
    get.into = into;
    get.cancellation = cancellation;
    if (!tag_.empty()) get.headers = {{"if-match", tag_}};
    if (client_->send(get, {206, 412}).status == 412)
      fail<StorageError>("{} has been replaced since it was opened; open it again", url_);
  }

  const std::shared_ptr<S3Client> client_;
  const std::string key_, url_;
  const std::uint64_t size_;
  const std::string tag_;
};

}  // namespace

std::unique_ptr<Reader> find_object(std::shared_ptr<S3Client> client, const std::string& key) {
  const S3Answer answer = client->send({.doing = "open", .method = "HEAD", .key = key}, {200, 404});
  if (answer.status == 404) return nullptr;
  const std::string length = answer.header("content-length");
  std::uint64_t size = 0;
  const auto [stop, error] = std::from_chars(length.data(), length.data() + length.size(), size);
  if (error != std::errc() || stop != length.data() + length.size())
    fail<StorageError>("cannot open {}: expected its size from the server, got \"{}\"", client->url(key),
                       length);
  std::string tag = answer.header("etag");
  return std::make_unique<ObjectReader>(std::move(client), key, size, std::move(tag));
}

}  // namespace lockstep::storage
