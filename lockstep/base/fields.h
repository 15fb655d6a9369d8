// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

/// The fields of aggregates: structs without constructors, base classes and private members. All members must
/// be constructible from {}.
namespace lockstep::fields {

namespace internal {

/// `fit<T>`: whether T can be constructed from n times {}. Each {} initializes one member, also if it is an
/// array, which values without braces would not. `apply` calls f with all n members.
template <std::size_t n>
struct Count;

// The n = 8 q + r members, with r from 1 to 8, are named a1 to a8, b1 to b8, ….
#define LOCKSTEP_NAMES_1(x) x##1
#define LOCKSTEP_NAMES_2(x) LOCKSTEP_NAMES_1(x), x##2
#define LOCKSTEP_NAMES_3(x) LOCKSTEP_NAMES_2(x), x##3
#define LOCKSTEP_NAMES_4(x) LOCKSTEP_NAMES_3(x), x##4
#define LOCKSTEP_NAMES_5(x) LOCKSTEP_NAMES_4(x), x##5
#define LOCKSTEP_NAMES_6(x) LOCKSTEP_NAMES_5(x), x##6
#define LOCKSTEP_NAMES_7(x) LOCKSTEP_NAMES_6(x), x##7
#define LOCKSTEP_NAMES_8(x) LOCKSTEP_NAMES_7(x), x##8
#define LOCKSTEP_BEFORE_a
#define LOCKSTEP_BEFORE_b LOCKSTEP_BEFORE_a LOCKSTEP_NAMES_8(a),
#define LOCKSTEP_BEFORE_c LOCKSTEP_BEFORE_b LOCKSTEP_NAMES_8(b),
#define LOCKSTEP_BEFORE_d LOCKSTEP_BEFORE_c LOCKSTEP_NAMES_8(c),
#define LOCKSTEP_BEFORE_e LOCKSTEP_BEFORE_d LOCKSTEP_NAMES_8(d),
#define LOCKSTEP_BEFORE_g LOCKSTEP_BEFORE_e LOCKSTEP_NAMES_8(e),
#define LOCKSTEP_BEFORE_h LOCKSTEP_BEFORE_g LOCKSTEP_NAMES_8(g),
#define LOCKSTEP_BEFORE_k LOCKSTEP_BEFORE_h LOCKSTEP_NAMES_8(h),
#define LOCKSTEP_BRACES_1 \
  {}
#define LOCKSTEP_BRACES_2 \
  LOCKSTEP_BRACES_1, {}
#define LOCKSTEP_BRACES_3 \
  LOCKSTEP_BRACES_2, {}
#define LOCKSTEP_BRACES_4 \
  LOCKSTEP_BRACES_3, {}
#define LOCKSTEP_BRACES_5 \
  LOCKSTEP_BRACES_4, {}
#define LOCKSTEP_BRACES_6 \
  LOCKSTEP_BRACES_5, {}
#define LOCKSTEP_BRACES_7 \
  LOCKSTEP_BRACES_6, {}
#define LOCKSTEP_BRACES_8 \
  LOCKSTEP_BRACES_7, {}
#define LOCKSTEP_EARLIER_a
#define LOCKSTEP_EARLIER_b LOCKSTEP_EARLIER_a LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_c LOCKSTEP_EARLIER_b LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_d LOCKSTEP_EARLIER_c LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_e LOCKSTEP_EARLIER_d LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_g LOCKSTEP_EARLIER_e LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_h LOCKSTEP_EARLIER_g LOCKSTEP_BRACES_8,
#define LOCKSTEP_EARLIER_k LOCKSTEP_EARLIER_h LOCKSTEP_BRACES_8,
#define LOCKSTEP_COUNT(q, x, r)                                  \
  template <>                                                    \
  struct Count<8 * q + r> {                                      \
    template <class T>                                           \
    static constexpr bool fit = requires {                       \
      T{LOCKSTEP_EARLIER_##x LOCKSTEP_BRACES_##r};               \
    };                                                           \
    template <class T, class F>                                  \
    static constexpr decltype(auto) apply(T& value, F&& f) {     \
      auto& [LOCKSTEP_BEFORE_##x LOCKSTEP_NAMES_##r(x)] = value; \
      return f(LOCKSTEP_BEFORE_##x LOCKSTEP_NAMES_##r(x));       \
    }                                                            \
  };
#define LOCKSTEP_COUNTS(q, x) \
  LOCKSTEP_COUNT(q, x, 1)     \
  LOCKSTEP_COUNT(q, x, 2)     \
  LOCKSTEP_COUNT(q, x, 3)     \
  LOCKSTEP_COUNT(q, x, 4)     \
  LOCKSTEP_COUNT(q, x, 5)     \
  LOCKSTEP_COUNT(q, x, 6)     \
  LOCKSTEP_COUNT(q, x, 7)     \
  LOCKSTEP_COUNT(q, x, 8)
LOCKSTEP_COUNTS(0, a)
LOCKSTEP_COUNTS(1, b)
LOCKSTEP_COUNTS(2, c)
LOCKSTEP_COUNTS(3, d)
LOCKSTEP_COUNTS(4, e)
LOCKSTEP_COUNTS(5, g)
LOCKSTEP_COUNTS(6, h)
LOCKSTEP_COUNTS(7, k)

constexpr std::size_t kMost = 63;

template <class T, std::size_t least = 0, std::size_t too_many = kMost + 2>
consteval std::size_t search() {
  constexpr std::size_t middle = (least + too_many) / 2;
  if constexpr (too_many - least == 1)
    return least;
  else if constexpr (Count<middle>::template fit<T>)
    return search<T, middle, too_many>();
  else
    return search<T, least, middle>();
}

template <class T>
struct AnyBaseOf {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const;
};

template <class T>
consteval std::size_t count() {
  static_assert(std::is_aggregate_v<T> && !std::is_union_v<T>,
                "expected an aggregate: a struct without constructors, base classes and private members");
  static_assert(
      !requires { T{AnyBaseOf<T>{}}; }, "expected a struct without base classes");
  static_assert(
      requires { T{}; }, "expected a struct whose members can all be made of {}: no references");
  constexpr std::size_t n = search<T>();
  static_assert(n <= kMost, "expected a struct of at most 63 members; put some into a struct of their own");
  static_assert(n > 0 || std::is_empty_v<T>, "expected a struct whose members can all be made of {}");
  return n;
}

}  // namespace internal

/// The number of fields of T.
template <class T>
inline constexpr std::size_t count = internal::count<std::remove_cv_t<T>>();

/// Calls f(field...) with references to the fields of `value` in order.
template <class T, class F>
constexpr decltype(auto) apply(T& value, F&& f) {
  if constexpr (count<T> == 0)
    return f();
  else
    return internal::Count<count<T>>::apply(value, f);
}

}  // namespace lockstep::fields
