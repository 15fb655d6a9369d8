// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tokenizers {

struct EncodeOptions {
  bool add_special_tokens = true;  ///< those of the post-processor, such as one for the beginning of a text
};

struct DecodeOptions {
  bool skip_special_tokens = true;  ///< leave out tokens that the file calls special
};

/// Text to token ids and back, as a file `tokenizer.json` of Hugging Face says, or a model of sentencepiece.
/// The ids are those of the packages `tokenizers` and `sentencepiece`. Copies share what was read, and
/// threads may use it at the same time. docs/tokenizers.md lists what a file may have; loading another one
/// fails.
class Tokenizer {
 public:
  /// Reads a tokenizer.json, or a model of sentencepiece (tokenizer.model, spiece.model). Throws a DataError
  /// that names the file and what is wrong: it cannot be read, is neither, is damaged, or has a component or
  /// a field that is not supported.
  static Tokenizer from_file(const std::string& path);

  /// The same of the text of a tokenizer.json, and of the bytes of a model of sentencepiece.
  static Tokenizer from_json(std::string_view text);
  static Tokenizer from_sentencepiece(std::string_view bytes);

  /// The ids of a text of UTF-8. Throws a DataError that says where if the text is not UTF-8; also if it has
  /// a part for which the model has no token, not even one for unknown parts, if a regular expression of the
  /// file takes too many steps on it, or if it becomes longer than 256 MiB. Truncates and pads where the file
  /// says so.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The text of ids. An id that no token has gives no text, as models have more ids than their tokenizers.
  /// Bytes that are not UTF-8, such as those of a character whose last token is missing, become U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, DecodeOptions options = {}) const;

  /// The id of a token, added ones first; none if there is no such token.
  std::optional<std::int32_t> token_to_id(std::string_view token) const;

  /// The token of an id, as the vocabulary writes it; none if there is no such id. An added token that is
  /// looked for in normalized text is normalized.
  std::optional<std::string> id_to_token(std::int32_t id) const;

  /// How many tokens there are, with added ones.
  std::size_t vocab_size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

  std::shared_ptr<const Parts> parts_;
};

}  // namespace lockstep::tokenizers
