// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/reduce.h"

#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

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
  /// The products are rounded before they are added: in some of the loops the compiler would fuse both, and
  /// the bits would depend on the loop.
  template <class T>
  static std::complex<T> scalar(std::complex<T> a, std::complex<T> b) {
    const volatile T products[] = {a.real() * b.real(), a.imag() * b.imag(), a.real() * b.imag(),
                                   a.imag() * b.real()};
    const std::complex<T> product(products[0] - products[1], products[2] + products[3]);
    return product.real() != product.real() && product.imag() != product.imag() ? a * b : product;
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
  static void load(const Stored* from, std::size_t count, Value* to) {
    const hn::ScalableTag<float> d;
    const hn::RebindToUnsigned<decltype(d)> bits;
    const hn::Rebind<Stored, decltype(d)> halves;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(halves, from + i)));
      hn::StoreU(hn::BitCast(d, upper), d, to + i);
    }
    for (; i < count; ++i) to[i] = load(from[i]);
  }
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

constexpr std::size_t kBlock = 512;

/// Whether partial results have Values; otherwise they are as the terms are.
template <class Op>
constexpr bool kWidens = std::is_same_v<Op, Sum> || std::is_same_v<Op, Prod>;

template <class Op, class Format>
void load(const Term& term, std::size_t at, std::size_t m, typename Format::Value* to) {
  using Value = typename Format::Value;
  if (kWidens<Op> && term.is_partial) {
    std::memcpy(to, static_cast<const Value*>(term.data) + at, m * sizeof(Value));
    return;
  }
  const auto* source = static_cast<const typename Format::Stored*>(term.data) + at;
  if constexpr (LoadsMany<Format>) {
    Format::load(source, m, to);
  } else {
    for (std::size_t k = 0; k < m; ++k) to[k] = Format::load(source[k]);
  }
}

/// values = values op others
template <class Op, class Value>
void combine_values(Value* values, const Value* others, std::size_t m) {
  std::size_t k = 0;
  if constexpr (std::is_floating_point_v<Value>) {
    const hn::ScalableTag<Value> d;
    const std::size_t lanes = hn::Lanes(d);
    for (; k + lanes <= m; k += lanes)
      hn::StoreU(Op::vector(hn::LoadU(d, values + k), hn::LoadU(d, others + k)), d, values + k);
  }
  for (; k < m; ++k) values[k] = Op::scalar(values[k], others[k]);
}

/// values = values op term
template <class Op, class Format>
void combine_with(const Term& term, std::size_t at, std::size_t m, typename Format::Value* values) {
  using Value = typename Format::Value;
  if (kWidens<Op> && term.is_partial) {
    combine_values<Op>(values, static_cast<const Value*>(term.data) + at, m);
  } else if constexpr (std::is_same_v<typename Format::Stored, Value>) {
    combine_values<Op>(values, static_cast<const Value*>(term.data) + at, m);
  } else if constexpr (LoadsMany<Format>) {
    Value next[kBlock];
    load<Op, Format>(term, at, m, next);
    combine_values<Op>(values, next, m);
  } else {
    const auto* source = static_cast<const typename Format::Stored*>(term.data) + at;
    for (std::size_t k = 0; k < m; ++k) values[k] = Op::scalar(values[k], Format::load(source[k]));
  }
}

template <class Op, class Format>
void plain(const Terms& terms, std::size_t count, const Result& result) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  Value one[kBlock];
  std::vector<Value> more(terms.tree == nullptr ? 0 : (terms.tree->depth() - 1) * kBlock);
  // The values that are not combined yet, the last one on top.
  const auto level = [&](std::size_t number) {
    return number == 0 ? one : more.data() + (number - 1) * kBlock;
  };
  const bool is_partial = kWidens<Op> && result.is_partial;
  const std::size_t width = is_partial ? sizeof(Value) : sizeof(Stored);
  for (std::size_t i = 0; i < count; i += kBlock) {
    const std::size_t m = count - i < kBlock ? count - i : kBlock;
    std::size_t kept = 0;
    for (int j = 0; j < terms.n; ++j) {
      int merges = terms.tree == nullptr ? j != 0 : terms.tree->merges(j);
      if (merges == 0) {
        load<Op, Format>(terms.terms[j], i, m, level(kept++));
        continue;
      }
      combine_with<Op, Format>(terms.terms[j], i, m, level(kept - 1));
      for (--merges; merges > 0; --merges, --kept) {
        combine_values<Op>(level(kept - 2), level(kept - 1), m);
      }
    }
    std::byte* const to = static_cast<std::byte*>(result.out) + i * width;
    if (is_partial) {
      std::memcpy(to, one, m * width);
    } else {
      auto target = reinterpret_cast<Stored*>(to);
      for (std::size_t k = 0; k < m; ++k) target[k] = Format::store(one[k]);
    }
    if (result.copy != nullptr) std::memcpy(static_cast<std::byte*>(result.copy) + i * width, to, m * width);
  }
}

/// Complex numbers whose parts are T have sums and products, and no order.
template <class Op, class T>
void complexes(const void* const* sources, int n, std::size_t count, void* out, void* copy, bool stream) {
  if constexpr (std::is_same_v<Op, Sum>) {
    simd<Op, T>(sources, n, 2 * count, out, copy, stream);
  }
}

/// Calls `body` with the dtype's format. Signed numbers are added and multiplied as unsigned ones, which wrap
/// around.
template <class Op, class Body>
void with_format(DType dtype, Body body) {
  constexpr bool kOrdered = std::is_same_v<Op, Min> || std::is_same_v<Op, Max>;
  const auto integers = [&]<class Signed>(Signed) {
    body.template operator()<Op, Plain<std::conditional_t<kOrdered, Signed, std::make_unsigned_t<Signed>>>>();
  };
  switch (dtype) {
    case DType::kBool: {
      // "or" is the maximum and "and" the minimum of 0 and 1.
      using Logical = std::conditional_t<kOrdered, Op, std::conditional_t<std::is_same_v<Op, Sum>, Max, Min>>;
      return body.template operator()<Logical, Plain<std::uint8_t>>();
    }
    case DType::kI8:
      return integers(std::int8_t{});
    case DType::kI16:
      return integers(std::int16_t{});
    case DType::kI32:
      return integers(std::int32_t{});
    case DType::kI64:
      return integers(std::int64_t{});
    case DType::kU8:
      return body.template operator()<Op, Plain<std::uint8_t>>();
    case DType::kU16:
      return body.template operator()<Op, Plain<std::uint16_t>>();
    case DType::kU32:
      return body.template operator()<Op, Plain<std::uint32_t>>();
    case DType::kU64:
      return body.template operator()<Op, Plain<std::uint64_t>>();
    case DType::kF16:
      return body.template operator()<Op, Float16>();
    case DType::kBF16:
      return body.template operator()<Op, BFloat16>();
    case DType::kF8E4M3FN:
      return body.template operator()<Op, Float8<f8_e4m3fn_value, f8_e4m3fn_bits>>();
    case DType::kF8E5M2:
      return body.template operator()<Op, Float8<f8_e5m2_value, f8_e5m2_bits>>();
    case DType::kF32:
      return body.template operator()<Op, Plain<float>>();
    case DType::kF64:
      return body.template operator()<Op, Plain<double>>();
    case DType::kC64:
      if constexpr (!kOrdered) body.template operator()<Op, Plain<std::complex<float>>>();
      return;
    case DType::kC128:
      if constexpr (!kOrdered) body.template operator()<Op, Plain<std::complex<double>>>();
      return;
  }
}

/// Whether the sources are combined in vectors, one after the other.
template <class Op>
bool in_vectors(DType dtype, const void* const* s, int n, std::size_t count, void* out, void* copy,
                bool stream) {
  switch (dtype) {
    case DType::kF32:
      simd<Op, float>(s, n, count, out, copy, stream);
      return true;
    case DType::kF64:
      simd<Op, double>(s, n, count, out, copy, stream);
      return true;
    case DType::kI32:
      simd<Op, std::int32_t>(s, n, count, out, copy, stream);
      return true;
    case DType::kU32:
      simd<Op, std::uint32_t>(s, n, count, out, copy, stream);
      return true;
    case DType::kC64:
      complexes<Op, float>(s, n, count, out, copy, stream);
      return std::is_same_v<Op, Sum>;
    case DType::kC128:
      complexes<Op, double>(s, n, count, out, copy, stream);
      return std::is_same_v<Op, Sum>;
    default:
      return false;
  }
}

template <class Body>
void with_op(ReduceOp op, Body body) {
  switch (op) {
    case ReduceOp::kSum:
      return body.template operator()<Sum>();
    case ReduceOp::kProd:
      return body.template operator()<Prod>();
    case ReduceOp::kMin:
      return body.template operator()<Min>();
    case ReduceOp::kMax:
      return body.template operator()<Max>();
  }
}

bool reduce_in_vectors(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count,
                       void* out, void* copy, bool stream) {
  bool done = false;
  with_op(op, [&]<class Op>() { done = in_vectors<Op>(dtype, sources, n, count, out, copy, stream); });
  return done;
}

void reduce_terms(ReduceOp op, DType dtype, const Terms& terms, std::size_t count, const Result& result) {
  with_op(op, [&]<class Op>() {
    with_format<Op>(dtype,
                    [&]<class Logical, class Format>() { plain<Logical, Format>(terms, count, result); });
  });
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
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep::collectives {

HWY_EXPORT(reduce_in_vectors);
HWY_EXPORT(reduce_terms);
HWY_EXPORT(stream_copy);

namespace {

/// How the processor handles floats while this exists, whatever the thread's mode is: it rounds to the
/// nearest and raises no signal; subnormals are zero in sums and products, as in compiled programs, and
/// themselves in minima and maxima, whose result would depend on the order otherwise.
class FloatMode {
 public:
  explicit FloatMode(ReduceOp op) : before_(read()) {
    const bool flush = op == ReduceOp::kSum || op == ReduceOp::kProd;
    const Word wanted = flush ? kFlushing : kExact;
    if ((before_ & kModes) != wanted) write(wanted);
  }
  ~FloatMode() { write(before_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Word = std::uint32_t;
  static constexpr Word kModes = 0xffc0, kExact = 0x1f80, kFlushing = 0x9fc0;
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kModes = 0x7c8'9f00, kExact = 0, kFlushing = 1 << 24;
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = int;
  static constexpr Word kModes = 0, kExact = 0, kFlushing = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif
  const Word before_;
};

void check(ReduceOp op, DType dtype) {
  if (!can_reduce(op, dtype)) fail<DTypeError>("{} values have no minimum and no maximum", name(dtype));
}

}  // namespace

bool can_reduce(ReduceOp op, DType dtype) {
  return info(dtype).kind != DTypeKind::kComplex || op == ReduceOp::kSum || op == ReduceOp::kProd;
}

DType partial_type(ReduceOp op, DType dtype) {
  const bool rounds = op == ReduceOp::kSum || op == ReduceOp::kProd;
  return rounds && is_floating(dtype) && size_of(dtype) < size_of(DType::kF32) ? DType::kF32 : dtype;
}

void reduce(ReduceOp op, DType dtype, const void* const* sources, int n, std::size_t count, void* out,
            void* copy, bool stream) {
  if (count == 0) return;
  check(op, dtype);
  const FloatMode mode(op);
  if (HWY_DYNAMIC_DISPATCH(reduce_in_vectors)(op, dtype, sources, n, count, out, copy, stream)) return;
  constexpr int kFew = 64;
  Term few[kFew];
  std::vector<Term> many(n > kFew ? static_cast<std::size_t>(n) : 0);
  Term* const terms = n > kFew ? many.data() : few;
  for (int i = 0; i < n; ++i) terms[i] = {sources[i]};
  HWY_DYNAMIC_DISPATCH(reduce_terms)(op, dtype, {terms, n}, count, {out, copy});
}

void reduce(ReduceOp op, DType dtype, const Terms& terms, std::size_t count, const Result& result) {
  if (count == 0) return;
  check(op, dtype);
  const FloatMode mode(op);
  HWY_DYNAMIC_DISPATCH(reduce_terms)(op, dtype, terms, count, result);
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
