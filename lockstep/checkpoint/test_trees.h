// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trees for tests, in which every element is determined by its position and a seed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/make_array.h"
#include "lockstep/array/parts.h"
#include "lockstep/checkpoint/box.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep::test {

/// Bytes that differ at all positions; for bool 0 and 1.
inline std::byte byte_at(std::uint64_t place, std::uint64_t seed, DType dtype) {
  std::uint64_t x = place * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 32;
  return static_cast<std::byte>(dtype == DType::kBool ? x & 1 : x & 0xff);
}

/// The bytes of a box of the array.
inline std::vector<std::byte> expected_bytes(const Shape& shape, const checkpoint::Box& box, DType dtype,
                                             std::uint64_t seed) {
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(checkpoint::volume(box)) * element);
  checkpoint::for_each_stretch(box, checkpoint::whole(shape), box, element,
                               [&](std::size_t from, std::size_t to, std::size_t count) {
                                 for (std::size_t i = 0; i < count; ++i)
                                   bytes[to + i] = byte_at(from + i, seed, dtype);
                               });
  return bytes;
}

/// An array of such elements, over this sharding.
inline Array made(DType dtype, const Shape& shape, const Sharding& sharding, std::uint64_t seed) {
  return internal::from_parts({dtype, shape, false, {}}, sharding, true, [&](const checkpoint::Box& box) {
    auto bytes = std::make_shared<std::vector<std::byte>>(expected_bytes(shape, box, dtype, seed));
    return internal::HostPart{bytes->data(), bytes, false};
  });
}

/// Whether each part on this process has the right elements.
inline bool is_made(const Array& array, std::uint64_t seed) {
  for (const Shard& shard : array.addressable_shards()) {
    const auto bytes = expected_bytes(array.shape(), shard.index, array.dtype(), seed);
    if (!bytes.empty() && std::memcmp(bytes.data(), shard.data, bytes.size()) != 0) return false;
  }
  return true;
}

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> all{DType::kBool,     DType::kI8,    DType::kI16, DType::kI32, DType::kI64,
                                      DType::kU8,       DType::kU16,   DType::kU32, DType::kU64, DType::kF16,
                                      DType::kBF16,     DType::kF32,   DType::kF64, DType::kC64, DType::kC128,
                                      DType::kF8E4M3FN, DType::kF8E5M2};
  return all;
}

}  // namespace lockstep::test
