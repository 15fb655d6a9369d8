// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sleef/loops.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

namespace lockstep::sleef {
namespace {

// The attribute of a function gives it the instructions, so that vectors are passed in registers. What is
// left at the end is computed as a vector, too, so that each element has the same result wherever it is.
#define LOCKSTEP_LOOPS(suffix, instructions, T, Vector)                                                     \
  __attribute__((target(instructions))) void of_one_##suffix(Function f, const T* x, T* result,             \
                                                             std::size_t count) {                           \
    const auto function = reinterpret_cast<Vector (*)(Vector)>(f);                                          \
    Vector v{};                                                                                             \
    for (; count * sizeof(T) >= sizeof v; count -= sizeof v / sizeof(T)) {                                  \
      std::memcpy(&v, x, sizeof v);                                                                         \
      v = function(v);                                                                                      \
      std::memcpy(result, &v, sizeof v);                                                                    \
      x += sizeof v / sizeof(T);                                                                            \
      result += sizeof v / sizeof(T);                                                                       \
    }                                                                                                       \
    if (count == 0) return;                                                                                 \
    std::memcpy(&v, x, count * sizeof(T));                                                                  \
    v = function(v);                                                                                        \
    std::memcpy(result, &v, count * sizeof(T));                                                             \
  }                                                                                                         \
  __attribute__((target(instructions))) void of_two_##suffix(Function f, const T* x, const T* y, T* result, \
                                                             std::size_t count) {                           \
    const auto function = reinterpret_cast<Vector (*)(Vector, Vector)>(f);                                  \
    Vector v{}, w{};                                                                                        \
    for (; count * sizeof(T) >= sizeof v; count -= sizeof v / sizeof(T)) {                                  \
      std::memcpy(&v, x, sizeof v);                                                                         \
      std::memcpy(&w, y, sizeof w);                                                                         \
      v = function(v, w);                                                                                   \
      std::memcpy(result, &v, sizeof v);                                                                    \
      x += sizeof v / sizeof(T);                                                                            \
      y += sizeof v / sizeof(T);                                                                            \
      result += sizeof v / sizeof(T);                                                                       \
    }                                                                                                       \
    if (count == 0) return;                                                                                 \
    std::memcpy(&v, x, count * sizeof(T));                                                                  \
    std::memcpy(&w, y, count * sizeof(T));                                                                  \
    v = function(v, w);                                                                                     \
    std::memcpy(result, &v, count * sizeof(T));                                                             \
  }

LOCKSTEP_LOOPS(f32_avx2, "avx2,fma", float, __m256)
LOCKSTEP_LOOPS(f64_avx2, "avx2,fma", double, __m256d)
LOCKSTEP_LOOPS(f32_avx512f, "avx512f", float, __m512)
LOCKSTEP_LOOPS(f64_avx512f, "avx512f", double, __m512d)
#undef LOCKSTEP_LOOPS

constexpr Instructions kAvx512 = {
    "avx512f", 16, 8, {of_one_f32_avx512f, of_two_f32_avx512f}, {of_one_f64_avx512f, of_two_f64_avx512f}};
constexpr Instructions kAvx2 = {
    "avx2", 8, 4, {of_one_f32_avx2, of_two_f32_avx2}, {of_one_f64_avx2, of_two_f64_avx2}};

}  // namespace

WithSubnormals::WithSubnormals() : before_(_mm_getcsr()) {
  constexpr unsigned kOperandsAreZero = 0x0040;
  _mm_setcsr(before_ & ~(unsigned{_MM_FLUSH_ZERO_ON} | kOperandsAreZero));
}
WithSubnormals::~WithSubnormals() { _mm_setcsr(before_); }

std::vector<const Instructions*> usable_instructions() {
  __builtin_cpu_init();
  std::vector<const Instructions*> usable;
  if (__builtin_cpu_supports("avx512f")) usable.push_back(&kAvx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable.push_back(&kAvx2);
  return usable;
}

}  // namespace lockstep::sleef

#else

namespace lockstep::sleef {

WithSubnormals::WithSubnormals() = default;
WithSubnormals::~WithSubnormals() = default;
std::vector<const Instructions*> usable_instructions() { return {}; }

}  // namespace lockstep::sleef

#endif
