// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <source_location>
#include <utility>

#include "lockstep/ops/operand.h"

namespace lockstep {

namespace tree {
class Parts;
}

namespace random {

/// A key, or several with a shape: what random functions draw from. Of a type of its own, so that it is not
/// added to numbers by mistake. A tree of one array: functions under jit, vmap and scan take and return it.
class Key {
 public:
  /// No key.
  Key() = default;

  /// The key of these words, as jax.random.wrap_key_data: u32[2], or u32[..., 2] for several keys. Functions
  /// that use it throw DTypeError or ShapeError for others.
  Key(Array words) : words_(std::move(words)) {}

  /// The words of threefry2x32, as jax.random.key_data: u32[..., 2].
  const Array& data() const { return words_; }

  bool valid() const { return words_.valid(); }

  /// The shape of the keys: {} for one, {n} for those of split(key, n).
  Shape shape() const;

  /// A number, with the user's call site.
  struct At {
    template <std::integral T>
    At(T i, std::source_location where = std::source_location::current())
        : i(static_cast<std::int64_t>(i)), where(where) {}
    std::int64_t i;
    std::source_location where;
  };

  /// Key i of several, from the end if i is negative. Throws ShapeError for one key, and if there is no such
  /// key.
  Key operator[](const At& at) const;

  static void tree_parts(Key& self, tree::Parts& part);

 private:
  Array words_;
};

/// A key as an argument, with the user's call site.
class KeyOperand : public Operand {
 public:
  KeyOperand(const Key& key, std::source_location where = std::source_location::current())
      : Operand(key.data(), where) {}
  KeyOperand(const Array& words, std::source_location where = std::source_location::current())
      : Operand(words, where) {}
};

inline Array key_data(const Key& key) { return key.data(); }
inline Key wrap_key_data(const Array& words) { return words; }

}  // namespace random

namespace internal {
random::Key key_at(const random::Key& keys, std::int64_t i, const std::source_location& where);
}

/// Key i of several.
template <std::same_as<random::Key> Keys>
random::Key index(const Keys& keys, std::int64_t i,
                  std::source_location where = std::source_location::current()) {
  return internal::key_at(keys, i, where);
}

}  // namespace lockstep
