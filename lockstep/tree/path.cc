// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/path.h"

namespace lockstep::tree {

std::size_t Path::add(std::string_view before, std::string_view what, std::string_view after) {
  const std::size_t from = text_.size();
  text_.append(before).append(what).append(after);
  return from;
}

std::size_t Path::to_element(std::size_t i) { return add("[", std::to_string(i), "]"); }
std::size_t Path::to_key(std::string_view key) { return add("[\"", key, "\"]"); }
std::size_t Path::to_key(std::int64_t key) { return add("[", std::to_string(key), "]"); }
// The name may be itself the path of a part of another tree: of optim::SelectedParams.
std::size_t Path::to_field(std::string_view name) {
  return add(text_.empty() || name.empty() || name.front() == '[' ? "" : ".", name, "");
}

}  // namespace lockstep::tree
