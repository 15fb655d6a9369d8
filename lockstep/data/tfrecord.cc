// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tfrecord.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/crc32c.h"
#include "lockstep/data/stored_numbers.h"

namespace lockstep::data {
namespace {

using internal::File;
using internal::masked_crc32c;

// A record: u64 length, u32 masked CRC of the length, the bytes, u32 masked CRC of the bytes.
constexpr std::uint64_t kBefore = 12, kBehind = 4;

/// The length in the 12 bytes at `offset`.
std::uint64_t length_at(const File& file, std::uint64_t offset, std::string_view before,
                        std::uint64_t record) {
  std::uint64_t length;
  std::uint32_t crc;
  std::memcpy(&length, before.data(), 8);
  std::memcpy(&crc, before.data() + 8, 4);
  if (masked_crc32c(before.substr(0, 8)) != crc) {
    const bool gzip = offset == 0 && before.starts_with("\x1f\x8b");
    file.damaged(offset, fmt::format("record {}: the checksum of its length is wrong; {}", record,
                                     gzip ? "the file is compressed by gzip: take it out of that first"
                                          : "the file is damaged, or not a TFRecord file"));
  }
  return length;
}

void find_records(const File& file, bool progress, const internal::Append& append) {
  internal::Scan scan(file, std::size_t{1} << 20);
  ProgressBar bar("index " + file.url(), static_cast<std::int64_t>(file.size()),
                  progress && file.size() >= std::uint64_t{1} << 30, ProgressBar::Unit::kBytes);
  for (std::uint64_t record = 0; scan.left() > 0; ++record) {
    const std::uint64_t offset = scan.offset();
    const std::uint64_t length = length_at(file, offset, scan.exactly(kBefore), record);
    if (length > scan.left() || kBehind > scan.left() - length) {
      file.damaged(offset, fmt::format("record {} has {} bytes, and {} follow; the file is cut off", record,
                                       length, scan.left()));
    }
    scan.skip(length + kBehind);
    append(offset);
    bar.update(static_cast<std::int64_t>(scan.offset()));
  }
  append(file.size());
}

class TfRecord : public Source {
 public:
  TfRecord(const std::string& url, const IndexOptions& index)
      : file_("tfrecord", url),
        fingerprint_(combine(lockstep::fingerprint("tfrecord"), file_.fingerprint())),
        begins_(internal::stored_numbers(
            "tfrecord", file_.url(), "tfrecord", fingerprint_, index,
            [&](const internal::Append& append) { find_records(file_, index.progress, append); })) {}
  std::uint64_t size() const override { return std::max<std::uint64_t>(begins_->size(), 1) - 1; }
  Record read(std::uint64_t i) const override { return {{"record", Field::text(serialized(i).second)}}; }
  std::string place(std::uint64_t i) const override { return fmt::format("{} record {}", file_.url(), i); }
  Fingerprint fingerprint() const override { return combine(fingerprint_, size()); }

 protected:
  std::pair<std::uint64_t, std::string> serialized(std::uint64_t i) const {
    internal::check_record("tfrecord", file_.url(), i, size());
    const auto [begin, end] = begins_->two(i);
    if (end < begin || end - begin < kBefore + kBehind)
      begins_->fail_outdated(file_, begin, fmt::format("record {} is said to end at byte {}", i, end));
    std::string whole = file_.text(begin, end - begin);
    const std::uint64_t length = length_at(file_, begin, std::string_view(whole).substr(0, kBefore), i);
    if (length != whole.size() - kBefore - kBehind) {
      begins_->fail_outdated(file_, begin,
                             fmt::format("record {} has {} bytes, and its index says {}", i, length,
                                         whole.size() - kBefore - kBehind));
    }
    std::uint32_t crc;
    std::memcpy(&crc, whole.data() + kBefore + length, kBehind);
    whole.resize(kBefore + length);
    whole.erase(0, kBefore);
    if (masked_crc32c(whole) != crc)
      file_.damaged(begin, fmt::format("record {}: its checksum is wrong; the file is damaged", i));
    return {begin, std::move(whole)};
  }

  File file_;
  Fingerprint fingerprint_;
  std::shared_ptr<const internal::StoredNumbers> begins_;
};

class Examples final : public TfRecord {
 public:
  using TfRecord::TfRecord;
  Record read(std::uint64_t i) const override {
    const auto [begin, text] = serialized(i);
    try {
      return fields_of_example(text);
    } catch (const DataError& error) {
      file_.damaged(begin, fmt::format("record {}: {}", i, error.what()));
    }
  }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint("examples"), TfRecord::fingerprint());
  }
};

}  // namespace

SourcePtr tfrecord(const std::string& url, IndexOptions index) {
  return std::make_shared<TfRecord>(url, index);
}

SourcePtr tfrecord_examples(const std::string& url, IndexOptions index) {
  return std::make_shared<Examples>(url, index);
}

}  // namespace lockstep::data
