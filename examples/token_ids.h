// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The token ids of a text, for a model of vocab_size tokens. Throws Error for a text without a token, and
/// for a tokenizer.json of another model.
inline std::vector<std::int32_t> token_ids(const lockstep::tokenizers::Tokenizer& tokenizer,
                                           std::string_view text, std::int64_t vocab_size) {
  std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (ids.empty()) throw lockstep::Error("'" + std::string(text) + "' is a text without a token");
  const std::int32_t largest = *std::ranges::max_element(ids);
  if (largest >= vocab_size)
    throw lockstep::Error("tokenizer.json gives the id " + std::to_string(largest) +
                          ", but config.json has " + std::to_string(vocab_size) +
                          " tokens: take both files from the same model");
  return ids;
}
