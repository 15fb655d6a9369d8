// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::tree {

/// The path of an array in a tree: "layers[0].w". A field of an aggregate adds its name, an element of a
/// sequence, tuple or pair its number, an entry of a map its key: ["key"] or [7]. An optional, a variant and
/// a shared_ptr add nothing.
class Path {
 public:
  /// The root's path, which has this name.
  explicit Path(std::string root = "") : text_(std::move(root)) {}

  const std::string& text() const { return text_; }

  /// Goes to an element, and returns what is needed to go back.
  std::size_t to_element(std::size_t i);
  std::size_t to_key(std::string_view key);
  std::size_t to_key(std::int64_t key);
  std::size_t to_field(std::string_view name);
  void back(std::size_t from) { text_.resize(from); }

 private:
  std::size_t add(std::string_view before, std::string_view what, std::string_view after);

  std::string text_;
};

}  // namespace lockstep::tree
