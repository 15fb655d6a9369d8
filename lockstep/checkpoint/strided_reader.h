// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/program/aval.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// The elements of an array that a file has at any strides, dense and row-major once they are asked for. They
/// stay in memory from then on.
class StridedReader final : public storage::Reader {
 public:
  /// The element of index 0, 0, … is at `begin`. The strides count elements, and none is negative.
  StridedReader(std::unique_ptr<storage::Reader> file, std::uint64_t begin, DType dtype, Shape shape,
                std::vector<std::int64_t> strides);
  const std::string& url() const override { return file_->url(); }
  std::uint64_t size() const override { return bytes_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override;
  std::shared_ptr<const std::byte> map() const override { return nullptr; }

 private:
  const std::unique_ptr<storage::Reader> file_;
  const std::uint64_t begin_;
  const std::size_t element_;
  const Shape shape_;
  const std::vector<std::int64_t> strides_;
  const std::uint64_t bytes_;
  mutable std::once_flag once_;
  mutable std::vector<std::byte> rows_;
};

}  // namespace lockstep::checkpoint
