// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/hf.h"

/// The names of arrays and tensors in the rules of hf.h.
namespace lockstep::checkpoint {

/// The path of an array (tree/path.h) with dots: "layers.0.w" for "layers[0].w".
std::string dotted(std::string_view path);

/// What each {} and {*} of the pattern stands for; nullopt if the name does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name);

/// The text with {} and {0} replaced by what they stand for; {e} stays. Throws CheckpointError for a number
/// that is too large, and for a { without }.
std::string with_captures(std::string_view text, const std::vector<std::string>& captures);

/// The name of a tensor, or of several.
class TensorName {
 public:
  /// What runs through the names: numbers, or texts.
  struct Running {
    std::string axis;
    std::vector<std::string> texts;  ///< empty: numbers
  };

  /// Of a text without {} and {0}. `literal`: what is between braces is part of the name. Throws
  /// CheckpointError.
  TensorName(const std::string& text, bool literal);

  const std::vector<Running>& running() const { return running_; }
  std::vector<std::string> axes() const;

  /// The name at an index of each.
  std::string at(const std::vector<std::size_t>& indices) const;

 private:
  std::vector<std::string> between_;  ///< one more than running_
  std::vector<Running> running_;
};

/// The tensor of an array according to the rules.
struct Named {
  std::size_t rule = 0;  ///< its number from 1 on; 0: none
  std::string tensor, layout;
  std::map<std::string, std::int64_t> sizes;
  bool tied = false;
  std::string why;  ///< "rule 3, "layers.{}.w" from "h.{}.w""
};

/// Throws CheckpointError if the rule is wrong.
Named named(const hf::Rules& rules, const std::string& path);

/// Whether the tensor is ignored.
bool ignores(const hf::Rules& rules, const std::string& tensor);

}  // namespace lockstep::checkpoint
