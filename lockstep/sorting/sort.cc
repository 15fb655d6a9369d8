// SPDX-License-Identifier: Apache-2.0
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "lockstep/base/fail.h"
#include "lockstep/sorting/sorting.h"

namespace lockstep::sorting {
namespace {

/// The elements of a piece of work, at least: some 0.1 ms.
constexpr std::int64_t kPiece = 1 << 14;

std::int64_t bits(DType dtype) { return 8 * static_cast<std::int64_t>(size_of(dtype)); }

/// How a key's bits become a number that orders as the key does.
enum class Order { kUnsigned, kSigned, kFloat };

struct Key {
  Order order;
  std::uint64_t infinity;  ///< the bits of a float's infinity: what is larger, without the sign, is NaN
};

Key key_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {Order::kFloat, 0x7c00};
    case DType::kBF16:
      return {Order::kFloat, 0x7f80};
    case DType::kF32:
      return {Order::kFloat, 0x7f800000};
    case DType::kF64:
      return {Order::kFloat, 0x7ff0000000000000};
    case DType::kF8E5M2:
      return {Order::kFloat, 0x7c};
    case DType::kF8E4M3FN:
      return {Order::kFloat, 0x7e};  // it has no infinity; the largest number
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return {Order::kSigned, 0};
    default:
      return {Order::kUnsigned, 0};
  }
}

/// NaN is the largest; 0 and -0 are equal.
template <Order kOrder, class T>
T ordered(T value, T infinity) {
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1)), kAll = static_cast<T>(~T{0});
  if constexpr (kOrder == Order::kUnsigned) return value;
  if constexpr (kOrder == Order::kSigned) return static_cast<T>(value ^ kSign);
  const T magnitude = static_cast<T>(value & ~kSign);
  const T number = static_cast<T>(value == magnitude ? value | kSign : kSign - magnitude);
  return magnitude > infinity ? kAll : number;
}

template <class T, Order kOrder>
void add_keys(const T* from, std::int64_t stride, const Key& key, T flip, std::span<std::uint64_t> keys) {
  constexpr int kShift = sizeof(T) == 8 ? 0 : 8 * sizeof(T);  // a key of 64 bits is the only one
  const T infinity = static_cast<T>(key.infinity);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = keys[i] << kShift |
              static_cast<T>(ordered<kOrder>(from[static_cast<std::int64_t>(i) * stride], infinity) ^ flip);
}

template <class T>
void add_keys(const void* operand, std::int64_t first, std::int64_t stride, const Key& key, bool descending,
              std::span<std::uint64_t> keys) {
  const T* from = static_cast<const T*>(operand) + first;
  const T flip = descending ? static_cast<T>(~T{0}) : T{0};
  switch (key.order) {
    case Order::kUnsigned:
      return add_keys<T, Order::kUnsigned>(from, stride, key, flip, keys);
    case Order::kSigned:
      return add_keys<T, Order::kSigned>(from, stride, key, flip, keys);
    case Order::kFloat:
      return add_keys<T, Order::kFloat>(from, stride, key, flip, keys);
  }
}

/// The keys of a row, those of several operands side by side, as numbers in the order that is wanted.
void make_keys(const Sort& s, std::int64_t first, std::int64_t stride, std::span<std::uint64_t> keys) {
  std::ranges::fill(keys, 0);
  for (std::size_t k = 0; k < static_cast<std::size_t>(s.num_keys); ++k) {
    const Key key = key_of(s.dtypes[k]);
    const void* operand = s.operands[k];
    switch (size_of(s.dtypes[k])) {
      case 1:
        add_keys<std::uint8_t>(operand, first, stride, key, s.descending, keys);
        break;
      case 2:
        add_keys<std::uint16_t>(operand, first, stride, key, s.descending, keys);
        break;
      case 4:
        add_keys<std::uint32_t>(operand, first, stride, key, s.descending, keys);
        break;
      default:
        add_keys<std::uint64_t>(operand, first, stride, key, s.descending, keys);
    }
  }
}

template <std::size_t kBytes>
struct Element {
  unsigned char bytes[kBytes];
};

template <std::size_t kBytes>
void take(const void* operand, void* result, std::int64_t first, std::int64_t into, std::int64_t stride,
          std::span<const std::uint32_t> places) {
  const auto* from = static_cast<const Element<kBytes>*>(operand) + first;
  auto* to = static_cast<Element<kBytes>*>(result) + into;
  for (const std::uint32_t place : places) {
    *to = from[place * stride];
    to += stride;
  }
}

void take(std::size_t bytes, const void* operand, void* result, std::int64_t first, std::int64_t into,
          std::int64_t stride, std::span<const std::uint32_t> places) {
  switch (bytes) {
    case 1:
      return take<1>(operand, result, first, into, stride, places);
    case 2:
      return take<2>(operand, result, first, into, stride, places);
    case 4:
      return take<4>(operand, result, first, into, stride, places);
    case 8:
      return take<8>(operand, result, first, into, stride, places);
    default:
      return take<16>(operand, result, first, into, stride, places);
  }
}

/// The memory of a thread for one row. A key and its place are one number, so that equal keys stay in order.
class Row {
 public:
  Row(const Sort& sort, std::int64_t key_bits)
      : sort_(sort),
        size_(static_cast<std::size_t>(sort.shape[static_cast<std::size_t>(sort.dimension)])),
        is_narrow_(key_bits <= 32),
        keys_(size_),
        places_(size_) {
    if (!is_narrow_) wide_.resize(size_);
  }

  /// The places of the row's elements in order.
  std::span<const std::uint32_t> sorted(std::int64_t first, std::int64_t stride) {
    make_keys(sort_, first, stride, keys_);
    hwy::Sorter sorter;
    if (is_narrow_) {
      for (std::size_t i = 0; i < size_; ++i) keys_[i] = keys_[i] << 32 | i;
      sorter(keys_.data(), size_, hwy::SortAscending());
      for (std::size_t i = 0; i < size_; ++i) places_[i] = static_cast<std::uint32_t>(keys_[i]);
    } else {
      for (std::size_t i = 0; i < size_; ++i) wide_[i] = {i, keys_[i]};
      sorter(wide_.data(), size_, hwy::SortAscending());
      for (std::size_t i = 0; i < size_; ++i) places_[i] = static_cast<std::uint32_t>(wide_[i].lo);
    }
    return std::span(places_).first(static_cast<std::size_t>(sort_.count));
  }

 private:
  const Sort& sort_;
  std::size_t size_;
  bool is_narrow_;
  std::vector<std::uint64_t> keys_;
  std::vector<hwy::uint128_t> wide_;
  std::vector<std::uint32_t> places_;
};

std::int64_t bits_of(std::span<const DType> keys) {
  std::int64_t sum = 0;
  for (DType key : keys) sum += bits(key);
  return sum;
}

}  // namespace

bool sorts(std::span<const DType> keys, std::int64_t size) {
  return size <= std::numeric_limits<std::uint32_t>::max() && bits_of(keys) <= 64 &&
         std::ranges::none_of(keys, is_complex);
}

void sort(const Sort& s, const ForEach& for_each) {
  const std::int64_t size = s.shape[static_cast<std::size_t>(s.dimension)];
  std::int64_t stride = 1, rows = 1;
  for (std::size_t d = 0; d < s.shape.size(); ++d) {
    if (static_cast<std::int64_t>(d) > s.dimension) stride *= s.shape[d];
    if (static_cast<std::int64_t>(d) != s.dimension) rows *= s.shape[d];
  }
  if (size == 0 || rows == 0) return;
  const std::int64_t key_bits = bits_of(std::span(s.dtypes).first(static_cast<std::size_t>(s.num_keys)));
  const std::int64_t piece = std::max<std::int64_t>(1, kPiece / size);
  for_each((rows + piece - 1) / piece, [&](std::int64_t i) {
    Row row(s, key_bits);
    for (std::int64_t r = i * piece; r < std::min(rows, (i + 1) * piece); ++r) {
      const std::int64_t first = r / stride * stride * size + r % stride,
                         into = r / stride * stride * s.count + r % stride;
      const std::span<const std::uint32_t> places = row.sorted(first, stride);
      for (std::size_t k = 0; k < s.operands.size(); ++k)
        take(size_of(s.dtypes[k]), s.operands[k], s.results[k], first, into, stride, places);
    }
  });
}

}  // namespace lockstep::sorting
