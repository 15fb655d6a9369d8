#include "lockstep/tree/path.h"

namespace lockstep::tree {

std::size_t Path::to_element(std::size_t i) {
  const std::size_t from = text_.size();
  text_ += '[';
  text_ += std::to_string(i);
  text_ += ']';
  return from;
}

std::size_t Path::to_key(std::int64_t key) {
  const std::size_t from = text_.size();
  text_ += '[';
  text_ += std::to_string(key);
  text_ += ']';
  return from;
}

std::size_t Path::to_key(std::string_view key) {
  const std::size_t from = text_.size();
  text_ += "[\"";
  text_ += key;
  text_ += "\"]";
  return from;
}

std::size_t Path::to_field(std::string_view name) {
  const std::size_t from = text_.size();
  if (!text_.empty()) text_ += '.';
  text_ += name;
  return from;
}

}  // namespace lockstep::tree
