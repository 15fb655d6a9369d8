// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/numpy.h"

#include <zip.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/data/file.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kEnding = ".npy";

/// A file in memory.
class MemoryReader : public storage::Reader {
 public:
  MemoryReader(std::string url, std::vector<std::byte> bytes)
      : url_(std::move(url)), bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}
  const std::string& url() const override { return url_; }
  std::uint64_t size() const override { return bytes_->size(); }
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset > size() || into.size() > size() - offset) fail<StorageError>("cannot read {}: it ends", url_);
    if (!into.empty()) std::memcpy(into.data(), bytes_->data() + offset, into.size());
  }
  std::shared_ptr<const std::byte> map() const override { return nullptr; }

 private:
  std::string url_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

/// The elements in row-major order, of those in column-major order.
std::vector<std::byte> row_major(const std::vector<std::byte>& columns, const Shape& shape,
                                 std::size_t size) {
  std::vector<std::byte> rows(columns.size());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t to = 0; to < rows.size(); to += size) {
    std::size_t from = 0, stride = size;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      from += static_cast<std::size_t>(index[d]) * stride;
      stride *= static_cast<std::size_t>(shape[d]);
    }
    std::memcpy(rows.data() + to, columns.data() + from, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return rows;
}

NumpyArray open_array(std::string path, std::unique_ptr<storage::Reader> reader) {
  const storage::Reader& bytes = *reader;
  data::internal::File file("checkpoint", std::move(reader));
  const data::internal::NpyHeader header = data::internal::read_npy_header(file);
  NumpyArray array{std::move(path),
                   {header.dtype, std::string(safetensors::name_of(header.dtype)), header.shape, false, {}},
                   nullptr};
  Part part{whole(header.shape), 0, header.bytes, array.path, {}, ""};
  std::vector<std::byte> elements;
  if (header.fortran_order && header.shape.size() > 1) {
    elements =
        row_major(file.bytes(header.bytes, file.size() - header.bytes), header.shape, size_of(header.dtype));
    array.reader = std::make_unique<MemoryReader>(bytes.url(), std::move(elements));
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

std::vector<NumpyArray> open_npz(const storage::Reader& file) {
  const std::string bytes = storage::read_whole(file, std::uint64_t{1} << 40);
  zip_error_t error;
  zip_error_init(&error);
  auto damaged = [&](const std::string& what) {
    fail<CheckpointError>("[checkpoint] {} is damaged, or no .npz file: {}", file.url(), what);
  };
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* opened =
      source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (opened == nullptr) {
    zip_source_free(source);
    damaged(zip_error_strerror(&error));
  }
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(opened, zip_discard);
  std::vector<NumpyArray> arrays;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t about;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &about) != 0)
      damaged(zip_strerror(archive.get()));
    std::string name = about.name;
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> entry(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), zip_fclose);
    // A size in a file is not trusted: memory is allocated as the bytes are read.
    std::vector<std::byte> content;
    std::vector<std::byte> block(1 << 20);
    for (zip_int64_t got = 1; got > 0;) {
      got = entry == nullptr ? -1 : zip_fread(entry.get(), block.data(), block.size());
      if (got < 0) damaged("its entry " + name + " cannot be read");
      content.insert(content.end(), block.begin(), block.begin() + got);
    }
    if (content.size() != about.size) damaged("its entry " + name + " has another size");
    const std::string url = file.url() + ":" + name;
    if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
    try {
      arrays.push_back(open_array(name, std::make_unique<MemoryReader>(url, std::move(content))));
    } catch (const DataError& wrong) {
      throw CheckpointError(wrong.what());
    }
  }
  return arrays;
}

}  // namespace lockstep::checkpoint
