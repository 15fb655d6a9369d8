// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/strided_reader.h"

#include <cstring>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/strided_copy.h"

namespace lockstep::checkpoint {

StridedReader::StridedReader(std::unique_ptr<storage::Reader> file, std::uint64_t begin, DType dtype,
                             Shape shape, std::vector<std::int64_t> strides)
    : file_(std::move(file)),
      begin_(begin),
      element_(size_of(dtype)),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      bytes_(static_cast<std::uint64_t>(num_elements(shape_)) * element_) {}

void StridedReader::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > bytes_ || into.size() > bytes_ - offset)
    fail<StorageError>("cannot read {}: it ends before the bytes that were asked for", url());
  std::call_once(once_, [&] {
    if (bytes_ == 0) return;
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) last += (shape_[d] - 1) * strides_[d];
    std::vector<std::byte> stored((static_cast<std::size_t>(last) + 1) * element_);
    file_->read(begin_, stored);
    rows_.resize(bytes_);
    internal::copy_strided(rows_.data(), stored.data(), element_, shape_, strides_);
  });
  if (!into.empty()) std::memcpy(into.data(), rows_.data() + offset, into.size());
}

}  // namespace lockstep::checkpoint
