// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/sharding/partition_spec.h"
#include "lockstep/tree/path.h"

namespace lockstep::tree {

class Visitor;

/// Visits a part, which has a certain type, with the visitor.
using VisitPart = void (*)(void* part, Visitor& visitor);

/// A number, bool, enum or string in a tree, whatever its C++ type.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

/// A reference to such a value in a tree, for reading and changing.
class ValueRef {
 public:
  template <class T>
  explicit ValueRef(T& value) : value_(&value), type_(&type_of<T>) {}

  Value get() const { return type_->get(value_); }

  /// Changes nothing and returns false if the value has another kind or does not fit.
  bool set(const Value& value) const { return type_->set(value_, value); }

  /// Passes the value to the visitor.
  void tell(Visitor& visitor) const { type_->tell(value_, visitor); }

 private:
  struct Type {
    Value (*get)(const void* value);
    bool (*set)(void* value, const Value& to);
    void (*tell)(const void* value, Visitor& visitor);
  };
  template <class T>
  static Value get(const void* value);
  template <class T>
  static bool set(void* value, const Value& to);
  template <class T>
  static void tell(const void* value, Visitor& visitor);
  template <class T>
  static constexpr Type type_of{&ValueRef::get<T>, &ValueRef::set<T>, &ValueRef::tell<T>};

  void* value_;
  const Type* type_;
};

/// The axes of an array below a part of a tree, by names that need not be axes of a mesh.
struct NamedAxes {
  std::string path;    ///< relative to the part: "kernel"
  PartitionSpec axes;  ///< a name, or none, for each dimension
};

/// Operations that the class of a part supports; null if it has no such member.
struct Abilities {
  void (*init)(void* part, const Array& key);                ///< replaces the part by part.init(key)
  std::vector<NamedAxes> (*logical_axes)(const void* part);  ///< part.logical_axes()
};

/// An operation on the parts of a tree (visit.h), whatever its C++ type: `visit` is compiled once for each
/// type of tree, not again for each operation. A visitor that needs paths sets `path.kept`.
class Visitor {
 public:
  /// `changes`: it changes trees. Then the target of a shared_ptr is copied first if it has other owners.
  /// Other visitors leave trees unchanged, and may be used for const ones.
  explicit Visitor(bool changes = false) : changes_(changes) {}
  bool changes() const { return changes_; }

  /// An array of the tree.
  virtual void leaf(Array& array) = 0;

  /// A part whose class has one of these abilities. Returns whether it was handled: then its own parts are
  /// not visited.
  virtual bool able(void*, const Abilities&) { return false; }

  /// A number, bool, enum or string of the tree. By default calls one of the functions below.
  virtual void value(const ValueRef& value) { value.tell(*this); }

  /// The number of elements of a container.
  virtual void size(std::size_t) {}

  /// Other contents that distinguish two trees of one type: values, keys, the state of an optional or
  /// variant.
  virtual void text(const std::string&) {}
  virtual void real(double) {}
  virtual void long_real(long double) {}
  virtual void natural(std::uint64_t) {}
  virtual void integer(std::int64_t) {}

  /// The same, for what is only valid in this process: an address, a number that the process gave out.
  virtual void only_here(std::uint64_t value) { natural(value); }

  /// Calls the one of these five functions that matches the type of the value.
  template <class T>
  void tell(const T& value) {
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

  /// A Path, if it is needed.
  struct Place {
    Path* kept = nullptr;
    std::size_t to_element(std::size_t i) { return kept == nullptr ? 0 : kept->to_element(i); }
    template <class Key>
    std::size_t to_key(const Key& key) {
      if (kept == nullptr) return 0;
      if constexpr (std::is_same_v<Key, std::string>)
        return kept->to_key(std::string_view(key));
      else if constexpr (std::is_unsigned_v<Key>)
        return kept->to_element(key);
      else
        return kept->to_key(static_cast<std::int64_t>(key));
    }
    std::size_t to_field(std::string_view name) { return kept == nullptr ? 0 : kept->to_field(name); }
    void back(std::size_t from) {
      if (kept != nullptr) kept->back(from);
    }
  };
  Place path;

  /// Visits a field of an object, or an element of a container, whose place becomes part of the path
  /// meanwhile.
  void field(std::string_view name, const void* part, VisitPart visit);
  void element(std::size_t i, const void* part, VisitPart visit);

 protected:
  ~Visitor() = default;

 private:
  bool changes_;
};

template <class T>
Value ValueRef::get(const void* value) {
  const T& typed = *static_cast<const T*>(value);
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
    return typed;
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(typed);
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<std::uint64_t>(typed);
  else
    return static_cast<std::int64_t>(typed);
}

template <class T>
bool ValueRef::set(void* value, const Value& to) {
  T& typed = *static_cast<T*>(value);
  auto put = [&](const auto* given) {
    if (given == nullptr) return false;
    const T fitted = static_cast<T>(*given);
    if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
      if (static_cast<std::decay_t<decltype(*given)>>(fitted) != *given) return false;
      if ((fitted < T{}) != (*given < 0)) return false;
    }
    typed = fitted;
    return true;
  };
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
    return put(std::get_if<T>(&to));
  else if constexpr (std::is_floating_point_v<T>)
    return put(std::get_if<double>(&to));
  else
    return put(std::get_if<std::int64_t>(&to)) || put(std::get_if<std::uint64_t>(&to));
}

template <class T>
void ValueRef::tell(const void* value, Visitor& visitor) {
  visitor.tell(*static_cast<const T*>(value));
}

}  // namespace lockstep::tree
