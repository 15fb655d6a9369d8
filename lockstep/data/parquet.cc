// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/parquet.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/data/file.h"
#include "lockstep/data/plugins/parquet_plugin.h"

namespace lockstep::data {
namespace {

using internal::File;
using Group = LockstepParquetGroup;

constexpr std::size_t kErrorBytes = 2048;

constexpr char kPlugin[] = "lockstep_parquet.so";

const LockstepParquetPlugin& load() {
  const std::optional<std::string> given = Environment::process().get("LOCKSTEP_PARQUET_PLUGIN");
  const TrustedPath found = first_trusted(given ? std::vector{*given} : library_paths(kPlugin));
  if (found.path.empty()) {
    std::string why = given ? " at " + *given : "";
    for (const std::string& refused : found.refused) why += "; " + refused;
    fail<DataError>(
        "[parquet] there is no plugin{}: run scripts/setup --parquet and build again, or set "
        "LOCKSTEP_PARQUET_PLUGIN to the path of one",
        why);
  }
  const std::string path = std::filesystem::absolute(found.path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail<DataError>("[parquet] the plugin cannot be loaded: {}", dlerror());
  const auto entry = reinterpret_cast<LockstepParquetEntry>(dlsym(library, LOCKSTEP_PARQUET_ENTRY));
  if (entry == nullptr) {
    fail<DataError>("[parquet] {} is not a plugin for Parquet: it has no function {}", path,
                    LOCKSTEP_PARQUET_ENTRY);
  }
  const LockstepParquetPlugin* plugin = entry();
  if (plugin->version != LOCKSTEP_PARQUET_VERSION) {
    fail<DataError>("[parquet] the plugin {} is of version {}, expected version {}: build it again", path,
                    plugin->version, LOCKSTEP_PARQUET_VERSION);
  }
  return *plugin;
}

/// It stays loaded.
const LockstepParquetPlugin& plugin() {
  static const LockstepParquetPlugin& loaded = load();
  return loaded;
}

class Parquet final : public Source {
 public:
  Parquet(const std::string& url, ParquetOptions options)
      : options_(std::move(options)),
        file_("parquet", url),
        input_{this, file_.size(), &Parquet::read_bytes} {
    std::vector<const char*> columns;
    for (const std::string& column : options_.columns) columns.push_back(column.c_str());
    char error[kErrorBytes] = "";
    opened_.reset(plugin().open(&input_, columns.data(), columns.size(), error, sizeof error));
    if (opened_ == nullptr) fail<DataError>("[parquet] {}: {}", file_.url(), error);
    begins_.push_back(0);
    for (std::uint64_t group = 0; group < plugin().groups(opened_.get()); ++group)
      begins_.push_back(begins_.back() + plugin().rows(opened_.get(), group));
    fingerprint_ = combine(lockstep::fingerprint("parquet"), file_.fingerprint());
    for (const std::string& column : options_.columns)
      fingerprint_ = combine(fingerprint_, lockstep::fingerprint(column));
  }

  std::uint64_t size() const override { return begins_.back(); }
  std::string place(std::uint64_t i) const override { return fmt::format("{} row {}", file_.url(), i); }
  Fingerprint fingerprint() const override { return fingerprint_; }

  Record read(std::uint64_t i) const override {
    internal::check_record("parquet", file_.url(), i, size());
    const auto number =
        static_cast<std::uint64_t>(std::ranges::upper_bound(begins_, i) - begins_.begin()) - 1;
    const std::shared_ptr<const Group> group = decoded(number);
    const std::uint64_t row = i - begins_[number];
    Record record;
    for (std::uint64_t c = 0; c < group->columns; ++c) {
      const LockstepParquetColumn& column = group->column[c];
      const LockstepParquetChunk* chunk = column.chunk;
      std::uint64_t in_chunk = row;
      while (in_chunk >= chunk->rows) in_chunk -= chunk++->rows;
      if (chunk->valid != nullptr && chunk->valid[in_chunk] == 0) continue;
      std::int64_t first = static_cast<std::int64_t>(in_chunk) * std::max<std::int64_t>(column.width, 0);
      Shape shape = {column.width};
      if (chunk->offsets != nullptr) {
        first = chunk->offsets[in_chunk];
        shape = {chunk->offsets[in_chunk + 1] - first};
      } else if (column.width < 0) {
        first = static_cast<std::int64_t>(in_chunk);
        shape = {};
      }
      const std::size_t element = size_of(column.dtype);
      const std::size_t bytes = element * static_cast<std::size_t>(num_elements(shape));
      const auto* data =
          static_cast<const std::byte*>(chunk->values) + element * static_cast<std::size_t>(first);
      Field field{column.dtype, std::move(shape), {}};
      if (bytes > 0) field.bytes.assign(data, data + bytes);
      record.emplace(column.name, std::move(field));
    }
    return record;
  }

 private:
  struct CloseFile {
    void operator()(void* file) const { plugin().close(file); }
  };
  struct Cached {
    std::shared_future<std::shared_ptr<const Group>> group;
    std::uint64_t used = 0, bytes = 0;  // bytes: 0 while it is decoded
  };

  static bool read_bytes(void* self, std::uint64_t offset, std::uint64_t bytes, void* into, char* error,
                         std::uint64_t error_bytes) {
    try {
      static_cast<const Parquet*>(self)->file_.read(offset, {static_cast<std::byte*>(into), bytes});
      return true;
    } catch (const std::exception& caught) {
      const std::string_view text = caught.what();
      error[text.copy(error, error_bytes - 1)] = '\0';
      return false;
    }
  }

  /// The group. Of several threads that want it, the first decodes it and the others wait.
  std::shared_ptr<const Group> decoded(std::uint64_t number) const {
    std::promise<std::shared_ptr<const Group>> promise;
    std::shared_future<std::shared_ptr<const Group>> future;
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      Cached& cached = cached_[number];
      if (!cached.group.valid()) {
        cached.group = promise.get_future().share();
        first = true;
      }
      cached.used = ++uses_;
      future = cached.group;
    }
    if (!first) return future.get();
    try {
      std::shared_ptr<const Group> group = decode(number);
      std::lock_guard lock(mutex_);
      cached_[number].bytes = std::max<std::uint64_t>(group->bytes, 1);
      make_room(number);
      promise.set_value(std::move(group));
    } catch (...) {
      std::lock_guard lock(mutex_);
      cached_.erase(number);
      promise.set_exception(std::current_exception());
    }
    return future.get();
  }

  std::shared_ptr<const Group> decode(std::uint64_t number) const {
    char error[kErrorBytes] = "";
    const Group* group = plugin().read(opened_.get(), number, error, sizeof error);
    if (group == nullptr) fail<DataError>("[parquet] {} row group {}: {}", file_.url(), number, error);
    std::shared_ptr<const Group> held(group, plugin().release);
    if (held->rows != begins_[number + 1] - begins_[number]) {
      fail<DataError>("[parquet] {} row group {} is damaged: it has {} rows, but the file says {}",
                      file_.url(), number, held->rows, begins_[number + 1] - begins_[number]);
    }
    for (std::uint64_t c = 0; c < held->columns; ++c) {
      const LockstepParquetColumn& column = held->column[c];
      std::uint64_t rows = 0;
      for (std::uint64_t k = 0; k < column.chunks; ++k) rows += column.chunk[k].rows;
      if (rows != held->rows) {
        fail<DataError>("[parquet] {} row group {}: column '{}' has {} rows, expected {}", file_.url(),
                        number, column.name, rows, held->rows);
      }
    }
    return held;
  }

  /// Forgets groups that were not used for long, but not this one. The mutex is held.
  void make_room(std::uint64_t latest) const {
    while (true) {
      std::uint64_t bytes = 0;
      auto oldest = cached_.end();
      for (auto it = cached_.begin(); it != cached_.end(); ++it) {
        bytes += it->second.bytes;
        if (it->first == latest || it->second.bytes == 0) continue;
        if (oldest == cached_.end() || it->second.used < oldest->second.used) oldest = it;
      }
      if (bytes <= options_.cache_bytes || oldest == cached_.end()) return;
      cached_.erase(oldest);
    }
  }

  const ParquetOptions options_;
  const File file_;
  const LockstepParquetInput input_;
  std::unique_ptr<void, CloseFile> opened_;
  std::vector<std::uint64_t> begins_;  // The first row of each group, and the end.
  Fingerprint fingerprint_;

  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, Cached> cached_;
  mutable std::uint64_t uses_ = 0;
};

}  // namespace

SourcePtr parquet(const std::string& url, ParquetOptions options) {
  return std::make_shared<Parquet>(url, std::move(options));
}

}  // namespace lockstep::data
