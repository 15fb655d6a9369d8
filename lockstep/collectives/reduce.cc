// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/reduce.h"

#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"

// The baseline, AVX2 and AVX-512 are enough: each further target compiles every loop once more.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/collectives/reduce.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::collectives {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  static V vector(V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Prod {
  template <class V>
  static V vector(V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    if constexpr (std::is_same_v<T, std::uint16_t>) return static_cast<T>(std::uint32_t{a} * b);
    return static_cast<T>(a * b);
  }
};
template <bool maximum>
struct Extreme {
  template <class V>
  static V vector(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      auto chosen = hn::IfThenElse(maximum ? hn::Lt(a, b) : hn::Lt(b, a), b, a);
      return hn::IfThenElse(hn::Eq(b, b), chosen, b);  // Ne is false for NaNs on some targets.
    } else {
      return maximum ? hn::Max(a, b) : hn::Min(a, b);
    }
  }
  template <class T>
  static T scalar(T a, T b) {
    if (b != b) return b;
    return (maximum ? a < b : b < a) ? b : a;
  }
};
using Min = Extreme<false>;
using Max = Extreme<true>;

template <class Op, class T, bool kStream>
void reduce_vectors(const T* const* sources, int n, std::size_t count, T* out, T* copy) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  auto put = [&](auto value, std::size_t at) {
    if constexpr (kStream) {
      hn::Stream(value, d, out + at);
    } else {
      hn::StoreU(value, d, out + at);
    }
    if (copy != nullptr) hn::StoreU(value, d, copy + at);
  };
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const T* first = sources[0] + i;
    auto a = hn::LoadU(d, first), b = hn::LoadU(d, first + lanes);
    auto c = hn::LoadU(d, first + 2 * lanes), e = hn::LoadU(d, first + 3 * lanes);
    for (int j = 1; j < n; ++j) {
      const T* next = sources[j] + i;
      a = Op::vector(a, hn::LoadU(d, next));
      b = Op::vector(b, hn::LoadU(d, next + lanes));
      c = Op::vector(c, hn::LoadU(d, next + 2 * lanes));
      e = Op::vector(e, hn::LoadU(d, next + 3 * lanes));
    }
    put(a, i);
    put(b, i + lanes);
    put(c, i + 2 * lanes);
    put(e, i + 3 * lanes);
  }
  for (; i < count; ++i) {
    T value = sources[0][i];
    for (int j = 1; j < n; ++j) {
      if constexpr (std::is_same_v<Op, Sum> || std::is_same_v<Op, Prod>) {
        if constexpr (std::is_integral_v<T>) {
          using U = std::make_unsigned_t<T>;
          value = static_cast<T>(Op::scalar(static_cast<U>(value), static_cast<U>(sources[j][i])));
          continue;
        }
      }
      value = Op::scalar(value, sources[j][i]);
    }
    out[i] = value;
    if (copy != nullptr) copy[i] = value;
  }
  if constexpr (kStream) hwy::FlushStream();
}

template <class Op, class T>
void simd(const void* const* sources, int n, std::size_t count, void* out, void* copy, bool stream) {
  auto typed = reinterpret_cast<const T* const*>(sources);
  if (stream && reinterpret_cast<std::uintptr_t>(out) % 64 == 0) {
    reduce_vectors<Op, T, true>(typed, n, count, static_cast<T*>(out), static_cast<T*>(copy));
  } else {
    reduce_vectors<Op, T, false>(typed, n, count, static_cast<T*>(out), static_cast<T*>(copy));
  }
}

// How a number is held in memory, and computed with.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored x) { return x; }
  static Stored store(Value x) { return x; }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }
  static Stored store(Value value) {
    const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (x + 0x7fff + ((x >> 16) & 1)) >> 16;
    return static_cast<Stored>((x & 0x7fffffff) > 0x7f800000 ? (x >> 16) | 0x40 : rounded);
  }
};
struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  /// With integers: no float in between is subnormal, which would become zero if the processor flushes
  /// subnormals, as XLA configures it.
  static Value load(Stored x) {
    const std::int32_t magnitude = x & 0x7fff;
    std::int32_t bits = (magnitude << 13) + (magnitude < 0x7c00 ? 0x38000000 : 0x70000000);
    if (magnitude < 0x400) bits = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    return std::bit_cast<float>(bits | (x & 0x8000) << 16);
  }
  /// The same, with the processor's own conversion if it has one.
  static void load(const Stored* from, std::size_t count, Value* to) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> halves;
    const std::size_t lanes = hn::Lanes(d);
    const auto* source = reinterpret_cast<const hwy::float16_t*>(from);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(halves, source + i)), d, to + i);
    for (; i < count; ++i) to[i] = load(from[i]);
  }
  static Stored store(Value value) {
    std::uint32_t x = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (x >> 16) & 0x8000;
    x &= 0x7fffffff;
    std::uint32_t half;
    if (x >= 0x47800000) {
      half = x > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (x < 0x38800000) {  // Subnormal: the sum with 0.5 rounds to its last place.
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + 0.5f) - 0x3f000000;
    } else {
      half = (x - 0x38000000 + 0xfff + ((x >> 13) & 1)) >> 13;
    }
    return static_cast<Stored>(sign | half);
  }
};

template <float (*kValue)(std::uint8_t), std::uint8_t (*kBits)(float)>
struct Float8 {
  using Stored = std::uint8_t;
  using Value = float;
  static Value load(Stored x) {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> all;
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = kValue(static_cast<std::uint8_t>(i));
      return all;
    }();
    return values[x];
  }
  static Stored store(Value value) { return kBits(value); }
};

/// Whether there is a faster way to load many.
template <class Format>
concept LoadsMany = requires(const typename Format::Stored* from, typename Format::Value* to) {
  Format::load(from, 1, to);
};

template <class Op, class Format>
void plain(const void* const* sources, int n, std::size_t count, void* out, void* copy) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  constexpr std::size_t kBlock = 512;
  Value values[kBlock];
  for (std::size_t i = 0; i < count; i += kBlock) {
    const std::size_t m = count - i < kBlock ? count - i : kBlock;
    auto source = static_cast<const Stored*>(sources[0]) + i;
    if constexpr (LoadsMany<Format>) {
      Format::load(source, m, values);
    } else {
      for (std::size_t k = 0; k < m; ++k) values[k] = Format::load(source[k]);
    }
    for (int j = 1; j < n; ++j) {
      source = static_cast<const Stored*>(sources[j]) + i;
      if constexpr (LoadsMany<Format>) {
        Value next[kBlock];
        Format::load(source, m, next);
        for (std::size_t k = 0; k < m; ++k) values[k] = Op::scalar(values[k], next[k]);
      } else {
        for (std::size_t k = 0; k < m; ++k) values[k] = Op::scalar(values[k], Format::load(source[k]));
      }
    }
    auto target = static_cast<Stored*>(out) + i;
    for (std::size_t k = 0; k < m; ++k) target[k] = Format::store(values[k]);
    if (copy != nullptr) std::memcpy(static_cast<Stored*>(copy) + i, target, m * sizeof(Stored));
  }
}

/// Complex numbers whose parts are T have sums and products, and no order.
template <class Op, class T>
void complexes(const void* const* sources, int n, std::size_t count, void* out, void* copy, bool stream) {
  if constexpr (std::is_same_v<Op, Sum>) {
    simd<Op, T>(sources, n, 2 * count, out, copy, stream);
  } else if constexpr (std::is_same_v<Op, Prod>) {
    plain<Op, Plain<std::complex<T>>>(sources, n, count, out, copy);
  }
}

// Signed numbers are added and multiplied as unsigned ones, which wrap around.
template <class Op>
void dispatch(DType dtype, const void* const* s, int n, std::size_t count, void* out, void* copy,
              bool stream) {
  constexpr bool kOrdered = std::is_same_v<Op, Min> || std::is_same_v<Op, Max>;
  switch (dtype) {
    case DType::kF32:
      return simd<Op, float>(s, n, count, out, copy, stream);
    case DType::kF64:
      return simd<Op, double>(s, n, count, out, copy, stream);
    case DType::kI32:
      return simd<Op, std::int32_t>(s, n, count, out, copy, stream);
    case DType::kU32:
      return simd<Op, std::uint32_t>(s, n, count, out, copy, stream);
    case DType::kBool: {
      // "or" is the maximum and "and" the minimum of 0 and 1.
      using Logical = std::conditional_t<kOrdered, Op, std::conditional_t<std::is_same_v<Op, Sum>, Max, Min>>;
      return plain<Logical, Plain<std::uint8_t>>(s, n, count, out, copy);
    }
    case DType::kI8:
      return plain<Op, Plain<std::conditional_t<kOrdered, std::int8_t, std::uint8_t>>>(s, n, count, out,
                                                                                       copy);
    case DType::kI16:
      return plain<Op, Plain<std::conditional_t<kOrdered, std::int16_t, std::uint16_t>>>(s, n, count, out,
                                                                                         copy);
    case DType::kI64:
      return plain<Op, Plain<std::conditional_t<kOrdered, std::int64_t, std::uint64_t>>>(s, n, count, out,
                                                                                         copy);
    case DType::kU8:
      return plain<Op, Plain<std::uint8_t>>(s, n, count, out, copy);
    case DType::kU16:
      return plain<Op, Plain<std::uint16_t>>(s, n, count, out, copy);
    case DType::kU64:
      return plain<Op, Plain<std::uint64_t>>(s, n, count, out, copy);
    case DType::kF16:
      return plain<Op, Float16>(s, n, count, out, copy);
    case DType::kBF16:
      return plain<Op, BFloat16>(s, n, count, out, copy);
    case DType::kF8E4M3FN:
      return plain<Op, Float8<f8_e4m3fn_value, f8_e4m3fn_bits>>(s, n, count, out, copy);
    case DType::kF8E5M2:
      return plain<Op, Float8<f8_e5m2_value, f8_e5m2_bits>>(s, n, count, out, copy);
    case DType::kC64:
      return complexes<Op, float>(s, n, count, out, copy, stream);
    case DType::kC128:
      return complexes<Op, double>(s, n, count, out, copy, stream);
  }
}

void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream) {
  switch (op) {
    case ReduceOp::kSum:
      return dispatch<Sum>(dtype, sources, n, count, out, copy, stream);
    case ReduceOp::kProd:
      return dispatch<Prod>(dtype, sources, n, count, out, copy, stream);
    case ReduceOp::kMin:
      return dispatch<Min>(dtype, sources, n, count, out, copy, stream);
    case ReduceOp::kMax:
      return dispatch<Max>(dtype, sources, n, count, out, copy, stream);
  }
}

void stream_copy(void* out, const void* in, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto target = static_cast<std::uint8_t*>(out);
  auto source = static_cast<const std::uint8_t*>(in);
  std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(target) % 64) % 64;
  if (head > bytes) head = bytes;
  std::memcpy(target, source, head);
  std::size_t i = head;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    auto a = hn::LoadU(d, source + i), b = hn::LoadU(d, source + i + lanes);
    auto c = hn::LoadU(d, source + i + 2 * lanes), e = hn::LoadU(d, source + i + 3 * lanes);
    hn::Stream(a, d, target + i);
    hn::Stream(b, d, target + i + lanes);
    hn::Stream(c, d, target + i + 2 * lanes);
    hn::Stream(e, d, target + i + 3 * lanes);
  }
  std::memcpy(target + i, source + i, bytes - i);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::collectives {

HWY_EXPORT(reduce);
HWY_EXPORT(stream_copy);

bool can_reduce(ReduceOp op, DType dtype) {
  return info(dtype).kind != DTypeKind::kComplex || op == ReduceOp::kSum || op == ReduceOp::kProd;
}

void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream) {
  if (count == 0) return;
  if (!can_reduce(op, dtype)) fail<DTypeError>("{} values have no minimum and no maximum", name(dtype));
  HWY_DYNAMIC_DISPATCH(reduce)(op, dtype, sources, n, count, out, copy, stream);
}

void copy_bytes(void* out, const void* in, std::size_t bytes, bool stream) {
  if (bytes == 0 || out == in) return;
  if (stream) {
    HWY_DYNAMIC_DISPATCH(stream_copy)(out, in, bytes);
  } else {
    std::memcpy(out, in, bytes);
  }
}

}  // namespace lockstep::collectives
#endif
