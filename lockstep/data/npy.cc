// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/npy.h"

#include <memory>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/file.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::data {
namespace {

using internal::File;

/// One file: the position and type of its rows.
class NpyFile {
 public:
  explicit NpyFile(const std::string& url) : file_("npy", url) {
    const internal::NpyHeader header = internal::read_npy_header(file_);
    if (header.shape.empty()) file_.damaged(10, "the array has no dimension, so no rows");
    if (header.fortran_order && header.shape.size() > 1)
      file_.damaged(10, "the array is in Fortran order; save numpy.ascontiguousarray of it");
    data_ = header.bytes;
    dtype_ = header.dtype;
    rows_ = static_cast<std::uint64_t>(header.shape[0]);
    row_.assign(header.shape.begin() + 1, header.shape.end());
    row_bytes_ = size_of(dtype_) * static_cast<std::uint64_t>(num_elements(row_));
  }

  const File& file() const { return file_; }
  std::uint64_t rows() const { return rows_; }
  Field read(std::uint64_t row) const {
    return {dtype_, row_, file_.bytes(data_ + row * row_bytes_, row_bytes_)};
  }

 private:
  File file_;
  DType dtype_;
  Shape row_;
  std::uint64_t data_, rows_, row_bytes_;
};

class Npy final : public Source {
 public:
  explicit Npy(const std::map<std::string, std::string>& urls) : fingerprint_(lockstep::fingerprint("npy")) {
    if (urls.empty()) fail<DataError>("[npy] no files were given");
    for (const auto& [name, url] : urls) {
      const NpyFile& file = *files_.emplace(name, std::make_unique<NpyFile>(url)).first->second;
      const NpyFile& first = *files_.begin()->second;
      if (file.rows() != first.rows()) {
        fail<DataError>("[npy] {} has {} rows, but {} has {}; they must have the same number",
                        file.file().url(), file.rows(), first.file().url(), first.rows());
      }
      fingerprint_ = combine(fingerprint_, combine(lockstep::fingerprint(name), file.file().fingerprint()));
    }
  }
  std::uint64_t size() const override { return files_.begin()->second->rows(); }
  Record read(std::uint64_t i) const override {
    internal::check_record("npy", files_.begin()->second->file().url(), i, size());
    Record record;
    for (const auto& [name, file] : files_) record.emplace(name, file->read(i));
    return record;
  }
  std::string place(std::uint64_t i) const override {
    return fmt::format("{} row {}", files_.begin()->second->file().url(), i);
  }
  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  std::map<std::string, std::unique_ptr<NpyFile>> files_;
  Fingerprint fingerprint_;
};

}  // namespace

SourcePtr npy(const std::map<std::string, std::string>& urls) { return std::make_shared<Npy>(urls); }

}  // namespace lockstep::data
