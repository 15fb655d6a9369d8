// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/mds.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/data/file.h"
#include "lockstep/data/mds_column.h"

namespace lockstep::data {
namespace {

using internal::File;
using internal::MdsColumn;
using nlohmann::json;

/// For messages: a list or an object by its kind only, for it may be nested deeply.
std::string value_text(const json& value) {
  return value.is_structured() ? value.type_name() : json_text(value);
}

// A shard: u32 records, u32 places of the records' beginnings and of the last one's end, a text, the records.
// A record: a u32 size for each column that has none in the index, then the values.
class Shard {
 public:
  Shard(const std::string& folder, const json& described) {
    if (described.at("format") != "mds")
      fail<DataError>("its format is {}, not 'mds'", value_text(described["format"]));
    if (described.at("version") != 2)
      fail<DataError>("its version is {}, not 2", value_text(described["version"]));
    const json& raw = described.at("raw_data");
    if (!raw.is_object()) fail<DataError>("it has no raw_data");
    const auto name = raw.at("basename").get<std::string>();
    if (name.empty() || name.front() == '/' || name.find("..") != name.npos)
      fail<DataError>("its file is said to be '{}', outside of the folder", name);
    url_ = folder + "/" + name;
    bytes_ = raw.at("bytes").get<std::uint64_t>();
    samples_ = described.at("samples").get<std::uint64_t>();
    const json &names = described.at("column_names"), &encodings = described.at("column_encodings"),
               &sizes = described.at("column_sizes");
    if (!names.is_array() || names.size() != encodings.size() || names.size() != sizes.size())
      fail<DataError>("its columns have different numbers of names, encodings and sizes");
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::optional<std::uint64_t> size;
      // A size of 0 means none, as in the format's own reader.
      if (!sizes[i].is_null() && sizes[i].get<std::uint64_t>() != 0) size = sizes[i].get<std::uint64_t>();
      columns_.emplace_back(names[i].get<std::string>(), encodings[i].get<std::string>(), size);
    }
    const json* zip = described.contains("zip_data") ? &described["zip_data"] : nullptr;
    compressed_ = zip != nullptr && zip->is_object();
  }

  const std::string& url() const { return url_; }
  std::uint64_t samples() const { return samples_; }

  Record read(std::uint64_t i) const {
    const File& shard = file();
    const std::uint64_t begin = shard.number<std::uint32_t>(4 + 4 * i);
    const std::uint64_t end = shard.number<std::uint32_t>(8 + 4 * i);
    if (begin < 4 * (samples_ + 2) || end < begin || end > shard.size()) {
      shard.damaged(4 + 4 * i,
                    fmt::format("record {} is said to be bytes {} to {} of {}; the file is damaged", i, begin,
                                end, shard.size()));
    }
    const std::string whole = shard.text(begin, end - begin);
    std::string_view rest = whole;
    auto take = [&](std::uint64_t count, const MdsColumn& column) {
      if (count > rest.size()) {
        shard.damaged(begin, fmt::format("record {}: column '{}' should have {} bytes, and {} are left; the "
                                         "file is damaged",
                                         i, column.name(), count, rest.size()));
      }
      const std::string_view taken = rest.substr(0, count);
      rest.remove_prefix(count);
      return taken;
    };
    std::vector<std::uint64_t> sizes;
    for (const MdsColumn& column : columns_) {
      if (column.size()) {
        sizes.push_back(*column.size());
      } else {
        std::uint32_t size;
        std::memcpy(&size, take(4, column).data(), 4);
        sizes.push_back(size);
      }
    }
    Record record;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string_view value = take(sizes[c], columns_[c]);
      try {
        record.insert_or_assign(columns_[c].name(), columns_[c].decode(value));
      } catch (const DataError& error) {
        shard.damaged(begin, fmt::format("record {}: {}; the file is damaged", i, error.what()));
      }
    }
    if (!rest.empty()) {
      shard.damaged(begin, fmt::format("record {} has {} bytes more than its columns; the file is damaged", i,
                                       rest.size()));
    }
    return record;
  }

 private:
  const File& file() const {
    std::lock_guard lock(mutex_);
    if (file_) return *file_;
    std::unique_ptr<const File> opened;
    try {
      opened = std::make_unique<const File>("mds", url_);
    } catch (const DataError& error) {
      if (!compressed_) throw;
      fail<DataError>(
          "{}; the shard is there in compressed form only: write it without compression, or keep "
          "both",
          error.what());
    }
    if (opened->size() != bytes_) {
      opened->damaged(0, fmt::format("the index says {} bytes, and the file has {}; it is damaged or cut off",
                                     bytes_, opened->size()));
    }
    if (auto found = opened->number<std::uint32_t>(0); found != samples_)
      opened->damaged(0, fmt::format("the index says {} records, and the file {}", samples_, found));
    if (samples_ >= bytes_ / 4) opened->damaged(0, fmt::format("{} records do not fit the file", samples_));
    file_ = std::move(opened);
    return *file_;
  }

  std::string url_;
  std::uint64_t bytes_ = 0, samples_ = 0;
  bool compressed_ = false;
  std::vector<MdsColumn> columns_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const File> file_;
};

class Mds final : public Source {
 public:
  explicit Mds(std::string folder) {
    internal::check_url("mds", folder);
    while (folder.ends_with('/')) folder.pop_back();
    const File index("mds", folder + "/index.json");
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;
    if (index.size() > kLargest) index.damaged(0, "the index is larger than 1 GiB");
    const std::string text = index.text(0, index.size());
    fingerprint_ = combine(lockstep::fingerprint("mds"), lockstep::fingerprint(text));
    std::size_t shard = 0;
    try {
      const json parsed = parse_json(text);
      if (!parsed.is_object() || parsed.at("version") != 2) fail<DataError>("expected version 2");
      if (!parsed.at("shards").is_array()) fail<DataError>("its shards are not a list");
      std::uint64_t end = 0;
      for (const json& described : parsed["shards"]) {
        shards_.push_back(std::make_unique<Shard>(folder, described));
        if (__builtin_add_overflow(end, shards_.back()->samples(), &end))
          fail<DataError>("there are more than 2^64 records");
        ends_.push_back(end);
        ++shard;
      }
    } catch (const json::parse_error& error) {
      index.damaged(error.byte, fmt::format("this is not JSON: {}", error.what()));
    } catch (const json::exception& error) {
      index.damaged(0, fmt::format("shard {} is not described as expected: {}", shard, error.what()));
    } catch (const DataError& error) {
      index.damaged(0, fmt::format("shard {}: {}", shard, error.what()));
    }
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Record read(std::uint64_t i) const override {
    internal::check_record("mds", "the folder", i, size());
    const auto [shard, record] = find(i);
    return shard->read(record);
  }
  std::string place(std::uint64_t i) const override {
    if (i >= size()) return fmt::format("record {}", i);
    const auto [shard, record] = find(i);
    return fmt::format("{} record {}", shard->url(), record);
  }
  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  std::pair<const Shard*, std::uint64_t> find(std::uint64_t i) const {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, i) - ends_.begin());
    return {shards_[at].get(), i - (at == 0 ? 0 : ends_[at - 1])};
  }

  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::uint64_t> ends_;
  Fingerprint fingerprint_;
};

}  // namespace

SourcePtr mds(const std::string& folder) { return std::make_shared<Mds>(folder); }

}  // namespace lockstep::data
