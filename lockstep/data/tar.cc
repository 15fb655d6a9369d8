// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tar.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/stored_numbers.h"
#include "lockstep/storage/url.h"

namespace lockstep::data {
namespace {

using internal::File;

constexpr std::uint64_t kBlock = 512;

/// The longest name or pax header that is read.
constexpr std::uint64_t kLongest = std::uint64_t{1} << 20;

/// The samples up to this size are read at once.
constexpr std::uint64_t kReadAtOnce = std::uint64_t{16} << 20;

/// A member of the file.
struct Member {
  std::uint64_t header;  ///< where it begins, headers that belong to it included
  std::string name;
  bool is_file;
  std::uint64_t data, bytes, end;
};

/// A number of a header: octal text, or, marked by its first bit, binary.
std::uint64_t number(const File& file, std::uint64_t offset, std::string_view text, const char* what) {
  std::uint64_t value = 0;
  if ((static_cast<std::uint8_t>(text[0]) & 0x80) != 0) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint64_t byte = static_cast<std::uint8_t>(text[i]) & (i == 0 ? 0x7f : 0xff);
      if (value >> 56 != 0) file.damaged(offset, fmt::format("the {} is too large", what));
      value = value << 8 | byte;
    }
    return value;
  }
  std::size_t i = 0;
  while (i < text.size() && text[i] == ' ') ++i;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '7'; ++i)
    value = value << 3 | static_cast<std::uint64_t>(text[i] - '0');
  for (; i < text.size(); ++i) {
    if (text[i] != ' ' && text[i] != '\0') file.damaged(offset, fmt::format("the {} is not a number", what));
  }
  return value;
}

std::string_view until_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

/// Reads the members one after the other.
class Members {
 public:
  explicit Members(const File& file, std::uint64_t begin = 0) : file_(file), at_(begin) {}

  std::uint64_t offset() const { return at_; }

  /// Reads this number of bytes from offset() on at once, for the members in them.
  void read_ahead(std::uint64_t bytes) {
    ahead_begin_ = at_;
    ahead_ = file_.bytes(at_, bytes);
  }

  /// As File::bytes.
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t count) const {
    if (offset < ahead_begin_ || offset - ahead_begin_ > ahead_.size() ||
        count > ahead_.size() - (offset - ahead_begin_))
      return file_.bytes(offset, count);
    const auto begin = ahead_.begin() + static_cast<std::ptrdiff_t>(offset - ahead_begin_);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  /// The next member; nullopt at the empty block that ends an archive. Throws if that is missing.
  std::optional<Member> next() {
    Member member{at_, "", false, 0, 0, 0};
    std::string long_name;
    std::optional<std::uint64_t> long_size;
    while (at_ < file_.size()) {
      const std::string block = text(at_, kBlock);
      const std::string_view header = block;
      if (header.find_first_not_of('\0') == header.npos) return std::nullopt;
      check(header);
      const char kind = header[156];
      std::uint64_t bytes = number(file_, at_ + 124, header.substr(124, 12), "size");
      const std::uint64_t data = at_ + kBlock;
      if (kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g') {
        if (bytes > kLongest) file_.damaged(at_ + 124, fmt::format("a long name of {} bytes", bytes));
        const std::string more = text(data, bytes);
        if (kind == 'L') long_name = until_zero(more);
        if (kind == 'x') read_pax(data, more, &long_name, &long_size);
        at_ = end_of(data, bytes);
        continue;
      }
      if (long_size) bytes = *long_size;
      member.is_file = kind == '0' || kind == '\0' || kind == '7';
      if (!member.is_file && kind != '5' && (kind < '1' || kind > '6')) {
        file_.damaged(at_ + 156, fmt::format("a member of kind '{}' cannot be read", kind));
      }
      if (!member.is_file) bytes = 0;
      member.name = long_name;
      if (member.name.empty()) {
        member.name = until_zero(header.substr(0, 100));
        const std::string prefix(until_zero(header.substr(345, 155)));
        if (header.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
          member.name = prefix + "/" + member.name;
      }
      member.data = data;
      member.bytes = bytes;
      member.end = at_ = end_of(data, bytes);
      return member;
    }
    file_.damaged(at_, "the file ends without an empty block; it is cut off");
  }

  /// Skips the empty blocks that end an archive. Whether another one follows, as in files that `cat` joined.
  bool skip_end() {
    behind_an_end_ = true;
    while (at_ < file_.size()) {
      const std::string blocks = file_.text(at_, std::min<std::uint64_t>(128 * kBlock, file_.size() - at_));
      const std::size_t zeros = std::min(blocks.find_first_not_of('\0'), blocks.size());
      if (zeros < blocks.size()) {
        at_ += zeros / kBlock * kBlock;
        return true;
      }
      at_ += blocks.size();
    }
    return false;
  }

 private:
  std::string text(std::uint64_t offset, std::uint64_t count) const {
    const std::vector<std::byte> read = bytes(offset, count);
    return {reinterpret_cast<const char*>(read.data()), read.size()};
  }

  void check(std::string_view header) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i)
      sum += i >= 148 && i < 156 ? ' ' : static_cast<std::uint8_t>(header[i]);
    bool right = false;
    try {
      right = number(file_, at_ + 148, header.substr(148, 8), "checksum") == sum;
    } catch (const DataError&) {
      // The checksum is no number, so the header is no header.
    }
    if (!right) {
      file_.damaged(
          at_, header.starts_with("\x1f\x8b") ? "the file is compressed by gzip: take it out of that first"
               : behind_an_end_               ? "other bytes than a tar file follow the end of the archive"
                                : "the header's checksum is wrong; the file is damaged, or not a tar file");
    }
  }

  std::uint64_t end_of(std::uint64_t data, std::uint64_t bytes) const {
    if (bytes > file_.size() - data) {
      file_.damaged(data, fmt::format("a member has {} bytes, and {} follow; the file is cut off", bytes,
                                      file_.size() - data));
    }
    // The last member's padding may be missing.
    return std::min(file_.size(), data + (bytes + kBlock - 1) / kBlock * kBlock);
  }

  /// Lines "LENGTH KEY=VALUE\n".
  void read_pax(std::uint64_t offset, std::string_view text, std::string* name,
                std::optional<std::uint64_t>* size) const {
    while (!text.empty() && text[0] != '\0') {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      if (error != std::errc() || length > text.size() || length < digits + 3 || text[digits] != ' ' ||
          text[length - 1] != '\n')
        file_.damaged(offset, "a pax header cannot be read; the file is damaged");
      const std::string_view entry = text.substr(digits + 1, length - digits - 2);
      const std::size_t equals = entry.find('=');
      if (equals == entry.npos) file_.damaged(offset, "a pax header has no '='; the file is damaged");
      const std::string_view key = entry.substr(0, equals), value = entry.substr(equals + 1);
      if (key == "path") *name = value;
      if (key == "size") {
        std::uint64_t number = 0;
        const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (wrong != std::errc() || last != value.data() + value.size())
          file_.damaged(offset, "a pax header's size is not a number; the file is damaged");
        *size = number;
      }
      if (key.starts_with("GNU.sparse.")) file_.damaged(offset, "sparse members are not supported");
      text.remove_prefix(length);
    }
  }

  const File& file_;
  std::uint64_t at_;
  bool behind_an_end_ = false;
  std::vector<std::byte> ahead_;
  std::uint64_t ahead_begin_ = 0;
};

/// The common part of the names of a sample's files, and the rest; nullopt for a file that belongs to none.
std::optional<std::pair<std::string_view, std::string_view>> key_and_field(std::string_view name) {
  const std::size_t base = name.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base) return std::nullopt;
  return std::pair(name.substr(0, dot), name.substr(dot + 1));
}

/// Two numbers for each sample: where it begins, and the fingerprint of its key; and at last where the last
/// one ends.
void find_samples(const File& file, bool progress, const internal::Append& append) {
  ProgressBar bar("index " + file.url(), static_cast<std::int64_t>(file.size()),
                  progress && file.size() >= std::uint64_t{1} << 30, ProgressBar::Unit::kBytes);
  Members members(file);
  std::uint64_t end = 0, left_out = 0;
  std::string first_left_out;
  do {
    std::optional<std::string> key;  // A sample ends with its archive.
    while (auto member = members.next()) {
      bar.update(static_cast<std::int64_t>(members.offset()));
      if (!member->is_file) continue;
      const auto names = key_and_field(member->name);
      if (!names) {
        if (left_out++ == 0) first_left_out = member->name;
        continue;
      }
      if (key != names->first) {
        key = names->first;
        append(member->header);
        append(lockstep::fingerprint(*key));
      }
      end = member->end;
    }
  } while (members.skip_end());
  append(end);
  if (left_out > 0) {
    logging::info(
        "[tar] {}: {} files belong to no sample, such as '{}': their names have no dot, or begin with one",
        file.url(), left_out, storage::printable(first_left_out));
  }
}

class Tar final : public Source {
 public:
  Tar(const std::string& url, const IndexOptions& index)
      : file_("tar", url),
        fingerprint_(combine(lockstep::fingerprint("tar"), file_.fingerprint())),
        begins_(internal::stored_numbers(
            "tar", file_.url(), "tar", combine(fingerprint_, lockstep::fingerprint("with keys")), index,
            [&](const internal::Append& append) { find_samples(file_, index.progress, append); })) {}
  std::uint64_t size() const override { return begins_->size() / 2; }

  Record read(std::uint64_t i) const override {
    internal::check_record("tar", file_.url(), i, size());
    const auto [begin, key_sum] = begins_->two(2 * i);
    const std::uint64_t end = (*begins_)[2 * i + 2];
    Members members(file_, begin);
    // One read for all members and the header behind them, unless it is large.
    if (begin < end && end <= file_.size() && end - begin <= kReadAtOnce)
      members.read_ahead(std::min(end + kBlock, file_.size()) - begin);
    Record record;
    while (true) {
      const auto member = members.next();
      if (!member) break;
      if (!member->is_file) continue;
      const auto names = key_and_field(member->name);
      if (!names) continue;
      const auto [key, name] = *names;
      // The next sample's.
      if (member->header >= end && lockstep::fingerprint(key) != key_sum) break;
      if (member->end > end || lockstep::fingerprint(key) != key_sum) {
        begins_->fail_outdated(file_, member->header,
                               fmt::format("record {} should end at byte {}, and there is the file '{}'", i,
                                           end, storage::printable(member->name)));
      }
      record.emplace("__key__", Field::text(key));
      Field value{
          DType::kU8, {static_cast<std::int64_t>(member->bytes)}, members.bytes(member->data, member->bytes)};
      if (!record.emplace(name, std::move(value)).second)
        file_.damaged(member->header, fmt::format("record {} has two files {}", i, member->name));
    }
    if (record.empty()) begins_->fail_outdated(file_, begin, fmt::format("there is no record {}", i));
    return record;
  }
  std::string place(std::uint64_t i) const override { return fmt::format("{} record {}", file_.url(), i); }
  Fingerprint fingerprint() const override { return combine(fingerprint_, size()); }

 private:
  File file_;
  Fingerprint fingerprint_;
  std::shared_ptr<const internal::StoredNumbers> begins_;
};

}  // namespace

SourcePtr tar(const std::string& url, IndexOptions index) { return std::make_shared<Tar>(url, index); }

}  // namespace lockstep::data
