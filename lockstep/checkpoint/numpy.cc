// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/numpy.h"

#include <zip.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "lockstep/array/host_view.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/strided_reader.h"
#include "lockstep/data/file.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kEnding = ".npy";

/// A .npz file, read as far as it is asked for. Thread-safe.
class Archive {
 public:
  /// Throws CheckpointError if the file is damaged.
  explicit Archive(std::unique_ptr<storage::Reader> file) : file_(std::move(file)) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_function_create(&Archive::call, this, &error);
    archive_ = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
    if (archive_ != nullptr) return;
    const std::string why = zip_error_strerror(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    damaged(why);
  }
  ~Archive() { zip_discard(archive_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::string& url() const { return file_->url(); }
  std::uint64_t count() const { return static_cast<std::uint64_t>(zip_get_num_entries(archive_, 0)); }

  zip_stat_t about(std::uint64_t entry) {
    zip_stat_t about;
    if (zip_stat_index(archive_, entry, 0, &about) != 0) damaged(zip_strerror(archive_));
    return about;
  }

  zip_file_t* open(std::uint64_t entry) { return zip_fopen_index(archive_, entry, 0); }

  [[noreturn]] void damaged(const std::string& what) const {
    fail<CheckpointError>("[checkpoint] {} is damaged, or not an .npz file: {}{}", url(), what,
                          trouble_.empty() ? "" : " (" + trouble_ + ")");
  }

  std::mutex& mutex() { return mutex_; }

 private:
  /// Answers libzip's requests about the file.
  static zip_int64_t call(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<Archive*>(self)->answer(data, size, command);
  }

  zip_int64_t answer(void* data, zip_uint64_t size, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        position_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return read(static_cast<std::byte*>(data), size);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_STAT: {
        auto* about = static_cast<zip_stat_t*>(data);
        zip_stat_init(about);
        about->valid = ZIP_STAT_SIZE;
        about->size = file_->size();
        return sizeof *about;
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, size);
      case ZIP_SOURCE_SEEK: {
        const zip_int64_t to = zip_source_seek_compute_offset(position_, file_->size(), data, size, &error_);
        if (to < 0) return -1;
        position_ = static_cast<std::uint64_t>(to);
        return 0;
      }
      case ZIP_SOURCE_TELL:
        return static_cast<zip_int64_t>(position_);
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  // By blocks, for an object store answers each read by a request.
  zip_int64_t read(std::byte* into, std::uint64_t size) {
    constexpr std::uint64_t kBlock = std::uint64_t{256} << 10;
    try {
      if (position_ >= file_->size()) return 0;
      if (position_ < block_begin_ || position_ >= block_begin_ + block_.size()) {
        block_begin_ = position_ / kBlock * kBlock;
        block_.resize(std::min(kBlock, file_->size() - block_begin_));
        file_->read(block_begin_, block_);
      }
      const std::uint64_t got = std::min(size, block_begin_ + block_.size() - position_);
      std::memcpy(into, block_.data() + (position_ - block_begin_), got);
      position_ += got;
      return static_cast<zip_int64_t>(got);
    } catch (const StorageError& error) {  // not through libzip, which is C
      block_.clear();
      trouble_ = error.what();
      zip_error_set(&error_, ZIP_ER_READ, 0);
      return -1;
    }
  }

  const std::unique_ptr<storage::Reader> file_;
  std::mutex mutex_;  // libzip has none
  zip_t* archive_ = nullptr;
  zip_error_t error_{};
  std::uint64_t position_ = 0, block_begin_ = 0;
  std::vector<std::byte> block_;
  std::string trouble_;
};

/// An entry of a .npz file, unpacked as far as it is asked for. Its size in the file is not trusted: memory
/// is allocated as the bytes are read.
class EntryReader : public storage::Reader {
 public:
  EntryReader(std::shared_ptr<Archive> archive, std::uint64_t entry)
      : archive_(std::move(archive)), file_(nullptr, zip_fclose), entry_(entry) {
    const zip_stat_t about = archive_->about(entry);
    name_ = about.name;
    url_ = archive_->url() + ":" + name_;
    size_ = about.size;
  }
  ~EntryReader() override {
    const std::lock_guard lock(archive_->mutex());
    file_.reset();
  }

  const std::string& name() const { return name_; }
  const std::string& url() const override { return url_; }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset > size_ || into.size() > size_ - offset)
      fail<StorageError>("cannot read {}: it ends before the bytes that were asked for", url_);
    const std::lock_guard lock(archive_->mutex());
    unpack(offset + into.size());
    if (!into.empty()) std::memcpy(into.data(), content_.data() + offset, into.size());
  }
  std::shared_ptr<const std::byte> map() const override { return nullptr; }

 private:
  void unpack(std::uint64_t end) const {
    constexpr std::size_t kBlock = 1 << 16;
    if (content_.size() >= end) return;
    if (file_ == nullptr) file_.reset(archive_->open(entry_));
    std::vector<std::byte> block(kBlock);
    // At its end once more, where the checksum is compared.
    while (!ended_ && (content_.size() < end || content_.size() == size_)) {
      // The checksum of an entry that is not read to its end is not looked at: a damaged array hides no
      // other.
      const std::size_t most = end < size_ ? std::min<std::size_t>(kBlock, end - content_.size()) : kBlock;
      const zip_int64_t got = file_ == nullptr ? -1 : zip_fread(file_.get(), block.data(), most);
      if (got < 0) archive_->damaged("its entry " + shown(name_) + " cannot be read");
      content_.insert(content_.end(), block.begin(), block.begin() + got);
      ended_ = got == 0;
      if (content_.size() > size_ || (ended_ && content_.size() != size_))
        archive_->damaged("its entry " + shown(name_) + " has another size");
    }
  }

  const std::shared_ptr<Archive> archive_;
  mutable std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file_;
  const std::uint64_t entry_;
  std::string name_, url_;
  std::uint64_t size_ = 0;
  mutable std::vector<std::byte> content_;
  mutable bool ended_ = false;
};

NumpyArray open_array(std::string path, std::unique_ptr<storage::Reader> reader) {
  data::internal::File file("checkpoint", std::move(reader));
  const data::internal::NpyHeader header = data::internal::read_npy_header(file);
  NumpyArray array{std::move(path),
                   {header.dtype, std::string(safetensors::name_of(header.dtype)), header.shape, false, {}},
                   nullptr};
  Part part{whole(header.shape), 0, header.bytes, array.path, {}, ""};
  if (header.fortran_order && header.shape.size() > 1) {
    array.reader = std::make_unique<StridedReader>(file.release(), header.bytes, header.dtype, header.shape,
                                                   internal::column_major_strides(header.shape));
    part.offset = 0;
  } else {
    array.reader = file.release();
  }
  array.info.parts.push_back(std::move(part));
  return array;
}

}  // namespace

std::vector<NumpyArray> open_npy(std::unique_ptr<storage::Reader> file) {
  std::vector<NumpyArray> arrays;
  try {
    arrays.push_back(open_array("", std::move(file)));
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
  return arrays;
}

std::vector<NumpyArray> open_npz(std::unique_ptr<storage::Reader> file) {
  const auto archive = std::make_shared<Archive>(std::move(file));
  std::vector<NumpyArray> arrays;
  for (std::uint64_t i = 0; i < archive->count(); ++i) {
    auto entry = std::make_unique<EntryReader>(archive, i);
    std::string name = entry->name();
    if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
    try {
      arrays.push_back(open_array(name, std::move(entry)));
    } catch (const DataError& wrong) {
      throw CheckpointError(wrong.what());
    }
  }
  return arrays;
}

}  // namespace lockstep::checkpoint
