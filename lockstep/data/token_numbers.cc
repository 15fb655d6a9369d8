// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/token_numbers.h"

#include <vector>

#include "lockstep/base/fail.h"

namespace lockstep::data::internal {

template <class T>
void TokenNumbers::read_as(std::uint64_t begin, std::span<std::int32_t> into) const {
  const std::uint64_t offset = offset_ + begin * sizeof(T);
  std::vector<T> numbers(into.size());
  file_->read(offset, std::as_writable_bytes(std::span(numbers)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!std::in_range<std::int32_t>(numbers[i])) {
      file_->damaged(offset + i * sizeof(T),
                     fmt::format("token {} is {}, which no vocabulary has: the file is damaged or of another "
                                 "format",
                                 begin + i, numbers[i]));
    }
    into[i] = static_cast<std::int32_t>(numbers[i]);
  }
}

void TokenNumbers::read(std::uint64_t begin, std::span<std::int32_t> into) const {
  if (begin > count_ || into.size() > count_ - begin) {
    fail<DataError>("[{}] {}: tokens {} to {} were asked for, but it has {}", file_->operation(),
                    file_->url(), begin, begin + into.size(), count_);
  }
  switch (dtype_) {
    case DType::kU8:
      return read_as<std::uint8_t>(begin, into);
    case DType::kI8:
      return read_as<std::int8_t>(begin, into);
    case DType::kU16:
      return read_as<std::uint16_t>(begin, into);
    case DType::kI16:
      return read_as<std::int16_t>(begin, into);
    case DType::kU32:
      return read_as<std::uint32_t>(begin, into);
    case DType::kI32:
      return read_as<std::int32_t>(begin, into);
    case DType::kI64:
      return read_as<std::int64_t>(begin, into);
    default:
      fail<DTypeError>("[{}] tokens cannot have the dtype {}", file_->operation(), name(dtype_));
  }
}

}  // namespace lockstep::data::internal
