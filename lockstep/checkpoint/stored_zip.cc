// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/stored_zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

// The records of PKWARE's APPNOTE.TXT: their first bytes, and their sizes without names.
constexpr std::string_view kEnd = "PK\x05\x06", kEnd64 = "PK\x06\x06", kLocator64 = "PK\x06\x07";
constexpr std::string_view kDirectoryEntry = "PK\x01\x02", kLocalHeader = "PK\x03\x04";
constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kDirectoryEntryBytes = 46;
constexpr std::size_t kLocalHeaderBytes = 30, kLongestComment = 0xFFFF;
constexpr std::uint64_t kIn64 = 0xFFFF'FFFF;
constexpr std::uint64_t kLargestDirectory = std::uint64_t{1} << 28;

template <class T>
T little(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

void StoredZip::damaged(const std::string& what) const {
  fail<CheckpointError>("[checkpoint] {} is damaged, or not a file of torch.save: {}", file_.url(), what);
}

std::string StoredZip::bytes(std::uint64_t offset, std::uint64_t count) const {
  if (offset > file_.size() || count > file_.size() - offset) damaged("it ends too early");
  std::string all(count, '\0');
  file_.read(offset, std::as_writable_bytes(std::span(all)));
  return all;
}

StoredZip::StoredZip(const storage::Reader& file) : file_(file) {
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(file.size(), kEndBytes + kLongestComment);
  const std::uint64_t tail_begin = file.size() - tail_bytes;
  const std::string tail = bytes(tail_begin, tail_bytes);
  const std::size_t at =
      tail_bytes < kEndBytes ? std::string::npos : tail.rfind(kEnd, tail_bytes - kEndBytes);
  if (at == std::string::npos) damaged("it is not a zip file");
  std::uint64_t count = little<std::uint16_t>(tail, at + 10);
  std::uint64_t directory_bytes = little<std::uint32_t>(tail, at + 12);
  directory_ = little<std::uint32_t>(tail, at + 16);
  if (count == 0xFFFF || directory_bytes == kIn64 || directory_ == kIn64) {
    if (tail_begin + at < kLocatorBytes) damaged("it has no directory");
    const std::string locator = bytes(tail_begin + at - kLocatorBytes, kLocatorBytes);
    if (!locator.starts_with(kLocator64)) damaged("it has no directory");
    const std::string end = bytes(little<std::uint64_t>(locator, 8), kEnd64Bytes);
    if (!end.starts_with(kEnd64)) damaged("it has no directory");
    count = little<std::uint64_t>(end, 32);
    directory_bytes = little<std::uint64_t>(end, 40);
    directory_ = little<std::uint64_t>(end, 48);
  }
  if (directory_bytes > kLargestDirectory) damaged("its directory is too large");
  const std::string directory = bytes(directory_, directory_bytes);
  std::size_t next = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view rest = std::string_view(directory).substr(next);
    if (rest.size() < kDirectoryEntryBytes || !rest.starts_with(kDirectoryEntry))
      damaged("its directory is too short");
    const std::size_t name_bytes = little<std::uint16_t>(rest, 28),
                      extra_bytes = little<std::uint16_t>(rest, 30);
    const std::size_t entry_bytes =
        kDirectoryEntryBytes + name_bytes + extra_bytes + little<std::uint16_t>(rest, 32);
    if (rest.size() < entry_bytes) damaged("its directory is too short");
    Entry entry;
    std::uint64_t compressed = little<std::uint32_t>(rest, 20);
    entry.bytes = little<std::uint32_t>(rest, 24);
    entry.offset = little<std::uint32_t>(rest, 42);
    std::string_view extra = rest.substr(kDirectoryEntryBytes + name_bytes, extra_bytes);
    while (extra.size() >= 4) {
      const std::size_t size = std::min<std::size_t>(little<std::uint16_t>(extra, 2), extra.size() - 4);
      if (little<std::uint16_t>(extra, 0) == 1) {
        std::string_view numbers = extra.substr(4, size);
        for (std::uint64_t* each : {&entry.bytes, &compressed, &entry.offset}) {
          if (*each != kIn64) continue;
          if (numbers.size() < 8) damaged("an entry has no size");
          *each = little<std::uint64_t>(numbers, 0);
          numbers.remove_prefix(8);
        }
      }
      extra.remove_prefix(4 + size);
    }
    const bool encrypted = little<std::uint16_t>(rest, 8) & 1;
    entry.stored = little<std::uint16_t>(rest, 10) == 0 && !encrypted && compressed == entry.bytes;
    const std::string name(rest.substr(kDirectoryEntryBytes, name_bytes));
    if (!entries_.emplace(name, entry).second) damaged("two entries are called " + shown(name));
    next += entry_bytes;
  }
}

std::uint64_t StoredZip::begin(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) damaged("it has no entry " + shown(name));
  const Entry& entry = found->second;
  if (!entry.stored) damaged("its entry " + shown(name) + " is compressed");
  const std::string header = bytes(entry.offset, kLocalHeaderBytes);
  if (!header.starts_with(kLocalHeader)) damaged("its entry " + shown(name) + " is not where it should be");
  const std::uint64_t begin = entry.offset + kLocalHeaderBytes + little<std::uint16_t>(header, 26) +
                              little<std::uint16_t>(header, 28);
  if (begin > directory_ || entry.bytes > directory_ - begin)
    damaged("its entry " + shown(name) + " does not fit in it");
  return begin;
}

}  // namespace lockstep::checkpoint
