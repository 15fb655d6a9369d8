// SPDX-License-Identifier: Apache-2.0
#pragma once

// A text, byte by byte: what train_transformer.cc and train_gpt.cc read and write.

#include <lockstep/lockstep.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace text {

/// Windows of `length` bytes of the text, as records of "tokens", i32[length]; each begins `stride` bytes
/// after the previous one. The text must exist as long as the result.
inline lockstep::data::SourcePtr windows(std::string_view text, std::int64_t length, std::int64_t stride) {
  namespace data = lockstep::data;
  // The name is part of the loader's state, so that a run is not continued with another text.
  std::string name = "bytes of " + lockstep::digest(text) + " by " + std::to_string(length);
  const auto count = static_cast<std::uint64_t>((std::ssize(text) - length) / stride + 1);
  return data::from_function(count, std::move(name), [=](std::uint64_t i) {
    std::vector<std::int32_t> tokens;
    for (char byte : text.substr(i * static_cast<std::size_t>(stride), static_cast<std::size_t>(length)))
      tokens.push_back(static_cast<unsigned char>(byte));
    return data::Record{{"tokens", data::Field::of(tokens)}};
  });
}

/// The prompt as tokens, behind as many newlines as make `length` of them.
inline std::vector<std::int32_t> window_of(std::string_view prompt, std::int64_t length) {
  std::vector<std::int32_t> window(static_cast<std::size_t>(length) - prompt.size(), '\n');
  for (char byte : prompt) window.push_back(static_cast<unsigned char>(byte));
  return window;
}

/// The tokens as text, with "?" for bytes that cannot be printed.
inline std::string printable(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (std::int32_t token : tokens)
    text += token == '\n' || (token >= ' ' && token <= '~') ? static_cast<char>(token) : '?';
  return text;
}

}  // namespace text
