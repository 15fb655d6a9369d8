// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lockstep/base/fail.h"

namespace lockstep::internal {
namespace {

struct Dimension {
  std::int64_t size, stride;
};

/// The dimensions, outermost first, without those of size 1; neighbours that one stride walks through are
/// one.
std::vector<Dimension> merged(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::vector<Dimension> dimensions;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (!dimensions.empty() && dimensions.back().stride == shape[d] * strides[d])
      dimensions.back() = {dimensions.back().size * shape[d], strides[d]};
    else
      dimensions.push_back({shape[d], strides[d]});
  }
  return dimensions;
}

template <std::size_t kBytes>
struct Element {
  unsigned char bytes[kBytes];
};

/// Transposes a block of 4 x 4: `to[i * to_step + j] = from[i + j * from_step]`.
template <class E>
void transpose_block(E* to, std::int64_t to_step, const E* from, std::int64_t from_step) {
  if constexpr (sizeof(E) == 4) {
    typedef std::uint32_t Four __attribute__((vector_size(16)));
    Four a, b, c, d;
    std::memcpy(&a, from, 16);
    std::memcpy(&b, from + from_step, 16);
    std::memcpy(&c, from + 2 * from_step, 16);
    std::memcpy(&d, from + 3 * from_step, 16);
    const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const Four rows[] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                         __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                         __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                         __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_step, &rows[i], 16);
  } else {
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) to[i * to_step + j] = from[i + j * from_step];
  }
}

/// A copy into rows of one dimension. Where another one has the smaller stride, both are walked through in
/// squares: each of the source's cache lines is read once, in order, into a small square of its own, and
/// written in rows from there.
template <std::size_t kBytes>
class Copy {
 public:
  Copy(char* destination, const char* source, std::vector<Dimension> dimensions)
      : dimensions_(std::move(dimensions)), steps_(dimensions_.size(), 1) {
    for (std::size_t d = dimensions_.size(); d-- > 1;) steps_[d - 1] = steps_[d] * dimensions_[d].size;
    last_ = dimensions_.size() - 1;
    across_ = last_;
    for (std::size_t d = 0; d < last_; ++d)
      if (std::abs(dimensions_[d].stride) < std::abs(dimensions_[across_].stride)) across_ = d;
    walk(0, destination, source);
  }

 private:
  static constexpr std::int64_t kSide = kBytes > 8 ? 32 : 64;
  using E = Element<kBytes>;

  static std::int64_t bytes(std::int64_t elements) { return elements * static_cast<std::int64_t>(kBytes); }

  void walk(std::size_t d, char* to, const char* from) const {
    if (d == across_ && across_ != last_) return walk(d + 1, to, from);
    if (d == last_) return across_ == last_ ? row(to, from) : plane(to, from);
    for (std::int64_t i = 0; i < dimensions_[d].size; ++i)
      walk(d + 1, to + bytes(i * steps_[d]), from + bytes(i * dimensions_[d].stride));
  }

  void row(char* to, const char* from) const {
    const auto [size, stride] = dimensions_[last_];
    if (stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes(size)));
      return;
    }
    for (std::int64_t i = 0; i < size; ++i) std::memcpy(to + bytes(i), from + bytes(i * stride), kBytes);
  }

  void plane(char* to, const char* from) const {
    const auto [rows, row_stride] = dimensions_[across_];
    const auto [columns, column_stride] = dimensions_[last_];
    constexpr std::int64_t kStep = kSide + 16;  // so that a square's rows are in different sets of the cache
    E square[kSide * kStep];
    for (std::int64_t r = 0; r < rows; r += kSide) {
      const std::int64_t height = std::min(kSide, rows - r);
      for (std::int64_t c = 0; c < columns; c += kSide) {
        const std::int64_t width = std::min(kSide, columns - c);
        const auto* corner = reinterpret_cast<const E*>(from + bytes(r * row_stride + c * column_stride));
        if (row_stride == 1 && height == kSide && width == kSide) {
          for (std::int64_t j = 0; j < kSide; j += 4)
            for (std::int64_t i = 0; i < kSide; i += 4)
              transpose_block(square + i * kStep + j, kStep, corner + i + j * column_stride, column_stride);
        } else {
          for (std::int64_t j = 0; j < width; ++j)
            for (std::int64_t i = 0; i < height; ++i)
              square[i * kStep + j] = corner[i * row_stride + j * column_stride];
        }
        for (std::int64_t i = 0; i < height; ++i)
          std::memcpy(to + bytes((r + i) * steps_[across_] + c), square + i * kStep,
                      static_cast<std::size_t>(bytes(width)));
      }
    }
  }

  std::vector<Dimension> dimensions_;
  std::vector<std::int64_t> steps_;  ///< the destination's strides
  std::size_t last_, across_;        ///< the destination's innermost dimension, and the source's
};

template <std::size_t kBytes>
void copy(void* destination, const void* source, std::vector<Dimension> dimensions) {
  Copy<kBytes>(static_cast<char*>(destination), static_cast<const char*>(source), std::move(dimensions));
}

}  // namespace

bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  const std::vector<Dimension> dimensions = merged(shape, strides);
  return dimensions.empty() || (dimensions.size() == 1 && dimensions[0].stride == 1);
}

void copy_strided(void* destination, const void* source, std::size_t element,
                  std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::vector<Dimension> dimensions = merged(shape, strides);
  if (dimensions.empty()) dimensions.push_back({1, 1});
  switch (element) {
    case 1:
      return copy<1>(destination, source, std::move(dimensions));
    case 2:
      return copy<2>(destination, source, std::move(dimensions));
    case 4:
      return copy<4>(destination, source, std::move(dimensions));
    case 8:
      return copy<8>(destination, source, std::move(dimensions));
    case 16:
      return copy<16>(destination, source, std::move(dimensions));
    default:
      fail_internally("[copy_strided] elements of {} bytes", element);
  }
}

}  // namespace lockstep::internal
