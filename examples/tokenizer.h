// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tokenizer.json of a folder in Hugging Face's format, as programs use it.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
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

/// Copies what a folder says of its tokenizer to another one, by process 0 alone.
inline void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (lockstep::process_index() != 0) return;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "tokenizer.model", "spiece.model"})
    if (std::filesystem::exists(from / name)) std::filesystem::copy_file(from / name, to / name);
}
