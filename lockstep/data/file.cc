// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/file.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/storage/url.h"

namespace lockstep::data::internal {

File::File(std::string operation, const std::string& url) : operation_(std::move(operation)) {
  try {
    reader_ = storage::open_file(url);
  } catch (const StorageError& error) {
    fail<DataError>("[{}] cannot open {}: {}", operation_, storage::printable(url), error.what());
  }
}

void File::check(std::uint64_t offset, std::uint64_t count) const {
  if (offset <= size() && count <= size() - offset) return;
  fail<DataError>(
      "[{}] {} at byte {}: {} bytes were expected, but the file ends at byte {}; it is damaged or cut off: "
      "fetch or make it again",
      operation_, url(), offset, count, size());
}

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  check(offset, into.size());
  if (into.empty()) return;
  try {
    reader_->read(offset, into);
  } catch (const StorageError& error) {
    fail<DataError>("[{}] {} at byte {}: cannot be read: {}", operation_, url(), offset, error.what());
  }
}

std::vector<std::byte> File::bytes(std::uint64_t offset, std::uint64_t count) const {
  check(offset, count);
  std::vector<std::byte> bytes(count);
  read(offset, bytes);
  return bytes;
}

std::string File::text(std::uint64_t offset, std::uint64_t count) const {
  check(offset, count);
  std::string text(count, '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

Fingerprint File::fingerprint() const {
  constexpr std::uint64_t kPart = 4096;
  const std::uint64_t part = std::min(kPart, size());
  Fingerprint all = size();
  for (std::uint64_t offset : {std::uint64_t{0}, (size() - part) / 2, size() - part})
    all = combine(all, lockstep::fingerprint(text(offset, part)));
  return all;
}

void File::damaged(std::uint64_t offset, const std::string& what) const {
  fail<DataError>("[{}] {} at byte {}: {}", operation_, url(), offset, what);
}

Scan::Scan(const File& file, std::size_t block)
    : file_(file), block_(block), buffer_(std::min<std::uint64_t>(block, file.size())) {}

void Scan::fill(std::size_t wanted) {
  const std::uint64_t buffered = buffer_offset_ + filled_;
  if (offset_ >= buffer_offset_ && offset_ + wanted <= buffered) return;
  buffer_offset_ = offset_;
  filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left()));
  file_.read(offset_, std::span(buffer_).first(filled_));
}

std::string_view Scan::next(std::size_t count) {
  if (left() == 0) return {};
  fill(1);
  const std::size_t at = static_cast<std::size_t>(offset_ - buffer_offset_);
  count = std::min(count, filled_ - at);
  offset_ += count;
  return {reinterpret_cast<const char*>(buffer_.data()) + at, count};
}

std::string_view Scan::exactly(std::size_t count) {
  if (count > left()) {
    file_.damaged(offset_, fmt::format("{} bytes were expected, but the file ends at byte {}; it is damaged "
                                       "or cut off: fetch or make it again",
                                       count, file_.size()));
  }
  if (count > block_) fail("[Scan] {} bytes do not fit a block of {}", count, block_);
  fill(count);
  const std::size_t at = static_cast<std::size_t>(offset_ - buffer_offset_);
  offset_ += count;
  return {reinterpret_cast<const char*>(buffer_.data()) + at, count};
}

void Scan::skip(std::uint64_t count) {
  if (count > left()) {
    file_.damaged(offset_, fmt::format("{} bytes were expected, but the file ends at byte {}; it is damaged "
                                       "or cut off: fetch or make it again",
                                       count, file_.size()));
  }
  offset_ += count;
}

void check_url(std::string_view operation, std::string_view url) {
  try {
    storage::locate(url);
  } catch (const StorageError& error) {
    fail<DataError>("[{}] {}", operation, error.what());
  }
}

void check_record(std::string_view operation, std::string_view name, std::uint64_t i, std::uint64_t size) {
  if (i < size) return;
  fail<DataError>("[{}] {} has no record {}: it has {}", operation, name, i, size);
}

}  // namespace lockstep::data::internal
