#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/array/array.h"
#include "lockstep/tree/path.h"

namespace lockstep::tree {

/// A visitor of trees of whatever C++ type: `visit` is compiled once for each type of tree, and not once more
/// for each thing that is done with it. A visitor that needs places sets `path.kept`.
class Visitor {
 public:
  /// An array of the tree; where the tree is const it must stay as it is.
  virtual void leaf(Array& array) = 0;

  /// The number of elements of a vector or map; what else tells two trees of one type apart.
  virtual void size(std::size_t) {}
  virtual void text(const std::string&) {}
  virtual void real(double) {}
  virtual void long_real(long double) {}
  virtual void natural(std::uint64_t) {}
  virtual void integer(std::int64_t) {}

  template <class T>
  void structure(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      text(value);
    else if constexpr (std::is_same_v<T, long double>)
      long_real(value);
    else if constexpr (std::is_floating_point_v<T>)
      real(static_cast<double>(value));
    else if constexpr (std::is_unsigned_v<T>)
      natural(value);
    else
      integer(static_cast<std::int64_t>(value));
  }

  /// A Path where one is kept.
  struct Place {
    Path* kept = nullptr;
    std::size_t to_element(std::size_t i) { return kept == nullptr ? 0 : kept->to_element(i); }
    std::size_t to_key(std::string_view key) { return kept == nullptr ? 0 : kept->to_key(key); }
    std::size_t to_field(std::string_view name) { return kept == nullptr ? 0 : kept->to_field(name); }
    void back(std::size_t from) {
      if (kept != nullptr) kept->back(from);
    }
  };
  Place path;

 protected:
  ~Visitor() = default;
};

}  // namespace lockstep::tree
