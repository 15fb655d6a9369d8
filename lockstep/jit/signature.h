#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/array/data.h"
#include "lockstep/base/fingerprint.h"

namespace lockstep::internal {

/// What tells two calls of a jitted function apart: the types of the arrays among the arguments, and all else
/// that the trees hold. It is a visitor of trees.
class Signature {
 public:
  void leaf(const Array& array) {
    leaves_.push_back(&array);
    words_.push_back(std::bit_cast<std::uintptr_t>(concrete(array, "[jit] an argument").type));
  }
  template <class T>
  void structure(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      words_.push_back(fingerprint(value));
    else if constexpr (std::is_same_v<T, double>)
      words_.push_back(std::bit_cast<std::uint64_t>(value));
    else if constexpr (std::is_same_v<T, float>)
      words_.push_back(std::bit_cast<std::uint32_t>(value));
    else
      words_.push_back(static_cast<std::uint64_t>(value));
  }

  void clear() {
    words_.clear();
    leaves_.clear();
  }
  const std::vector<std::uint64_t>& words() const { return words_; }
  const std::vector<const Array*>& leaves() const { return leaves_; }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<const Array*> leaves_;
};

}  // namespace lockstep::internal
