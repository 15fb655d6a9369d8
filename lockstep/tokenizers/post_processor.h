// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// Adds special tokens to the ids of a text.
using PostProcessor = std::function<void(std::vector<std::int32_t>& ids)>;

/// The post-processor of these settings. Throws a DataError for what is not supported.
PostProcessor make_post_processor(const Settings& settings);

/// What `truncation` of the file says. Throws a DataError for what is not supported.
class Truncation {
 public:
  explicit Truncation(Settings settings);

  /// Leaves as many ids as there may be where `added` more will be added.
  void apply(std::vector<std::int32_t>& ids, std::size_t added) const;

 private:
  bool left_;
  std::size_t most_;
};

/// What `padding` of the file says. Throws a DataError for what is not supported.
class Padding {
 public:
  explicit Padding(Settings settings);
  void apply(std::vector<std::int32_t>& ids) const;

 private:
  bool left_;
  std::size_t least_ = 0, multiple_ = 1;
  std::int32_t id_;
};

}  // namespace lockstep::tokenizers
