// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/record.h"

namespace lockstep::data::internal {

/// A column of an MDS shard: how its values are encoded.
class MdsColumn {
 public:
  /// From the encoding's name, such as "int", "ndarray:float32:2,3" or "jpeg:90", and the size in the index.
  /// Throws DataError if the encoding is unknown, or has another size.
  MdsColumn(std::string name, std::string encoding, std::optional<std::uint64_t> size);

  const std::string& name() const { return name_; }

  /// In bytes, if all values have the same size.
  std::optional<std::uint64_t> size() const { return size_; }

  /// Throws DataError if the bytes do not match the encoding.
  Field decode(std::string_view bytes) const;

 private:
  Field decode_array(std::string_view bytes) const;

  std::string name_, encoding_;
  bool is_array_ = false;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  std::optional<std::uint64_t> size_;
};

}  // namespace lockstep::data::internal
