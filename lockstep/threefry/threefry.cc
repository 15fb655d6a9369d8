// SPDX-License-Identifier: Apache-2.0
#include "lockstep/threefry/threefry.h"

#include <algorithm>
#include <cstddef>

// The baseline, AVX2 and AVX-512 are enough: each further target compiles every loop once more.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/threefry/threefry.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::threefry {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kLeft, class V>
HWY_INLINE V round(V& x0, V x1) {
  x0 = hn::Add(x0, x1);
  return hn::Xor(hn::RotateRight<32 - kLeft>(x1), x0);
}

template <int kRow, class V>
HWY_INLINE void four_rounds(V& x0, V& x1) {
  x1 = round<kRotations[kRow][0]>(x0, x1);
  x1 = round<kRotations[kRow][1]>(x0, x1);
  x1 = round<kRotations[kRow][2]>(x0, x1);
  x1 = round<kRotations[kRow][3]>(x0, x1);
}

template <class D>
HWY_INLINE hn::VFromD<D> loaded(D d, const Words& words, std::size_t i) {
  return words.is_one ? hn::Set(d, words.data[0]) : hn::LoadU(d, words.data + i);
}

/// One vector of elements.
template <class D>
HWY_INLINE void vector_of_words(D d, const Operands& operands, std::uint32_t* first, std::uint32_t* second,
                                std::size_t i) {
  const auto key0 = loaded(d, operands[0], i), key1 = loaded(d, operands[1], i),
             key2 = hn::Xor(hn::Xor(key0, key1), hn::Set(d, kKeyParity));
  auto x0 = hn::Add(loaded(d, operands[2], i), key0), x1 = hn::Add(loaded(d, operands[3], i), key1);
  const auto inject = [&](auto k0, auto k1, std::uint32_t number) HWY_ATTR {
    x0 = hn::Add(x0, k0);
    x1 = hn::Add(x1, hn::Add(k1, hn::Set(d, number)));
  };
  four_rounds<0>(x0, x1);
  inject(key1, key2, 1);
  four_rounds<1>(x0, x1);
  inject(key2, key0, 2);
  four_rounds<0>(x0, x1);
  inject(key0, key1, 3);
  four_rounds<1>(x0, x1);
  inject(key1, key2, 4);
  four_rounds<0>(x0, x1);
  inject(key2, key0, 5);
  hn::StoreU(x0, d, first + i);
  hn::StoreU(x1, d, second + i);
}

void words_of(const Operands& operands, std::uint32_t* first, std::uint32_t* second, std::size_t begin,
              std::size_t end) {
  const hn::ScalableTag<std::uint32_t> several;
  std::size_t i = begin;
  for (; i + hn::Lanes(several) <= end; i += hn::Lanes(several))
    vector_of_words(several, operands, first, second, i);
  for (; i < end; ++i) vector_of_words(hn::CappedTag<std::uint32_t, 1>(), operands, first, second, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::threefry
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::threefry {
namespace {

HWY_EXPORT(words_of);

/// The elements of a piece of work: some 30 us.
constexpr std::int64_t kPiece = 1 << 15;

}  // namespace

void threefry2x32(const Operands& operands, std::uint32_t* first, std::uint32_t* second, std::int64_t count,
                  const collectives::ForEach& for_each) {
  const auto piece = [&](std::int64_t i) {
    HWY_DYNAMIC_DISPATCH(words_of)
    (operands, first, second, static_cast<std::size_t>(i * kPiece),
     static_cast<std::size_t>(std::min(count, (i + 1) * kPiece)));
  };
  if (count <= kPiece) return piece(0);
  for_each((count + kPiece - 1) / kPiece, piece);
}

}  // namespace lockstep::threefry
#endif
