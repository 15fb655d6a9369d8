// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// The tokens of a model and their ids.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Of an object {"token": id, ...}. Throws a DataError if it is none, or if two tokens have one id.
  Vocabulary(Settings& settings, std::string_view name);

  /// Returns false if the id is taken. A token that is there gets this id.
  bool add(const std::string& token, std::int32_t id);

  std::optional<std::int32_t> id(std::string_view token) const;
  std::optional<std::string_view> token(std::int32_t id) const;
  std::size_t size() const { return ids_.size(); }

  /// The id of the token for unknown text. Throws a DataError that begins with `where` if there is none.
  std::int32_t unknown_id(std::string_view token, const std::string& where) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::int32_t, std::string_view>
      tokens_;  // of the keys of ids_, which stay where they are
};

/// The tokens <0x00> to <0xFF>, by which `byte_fallback` writes what no other token has.
class ByteTokens {
 public:
  explicit ByteTokens(const Vocabulary& vocabulary);

  /// Appends the ids of the text's bytes; none, and returns false, if a byte has no token.
  bool append(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  std::array<std::int32_t, 256> ids_;
};

/// What makes ids of the pieces of a text. Threads may share it.
class Model {
 public:
  virtual ~Model() = default;

  /// Appends the ids of a piece, which is not empty. Throws a DataError if it needs the token for what is
  /// unknown, and the model has none.
  virtual void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

using ModelPointer = std::unique_ptr<const Model>;

// Each throws a DataError for what is not supported or contradicts itself.

/// Merges pairs of tokens, beginning with the characters, in the order of a list.
ModelPointer make_bpe(Settings& settings);

/// Takes the longest token with which a word begins, and so on.
ModelPointer make_word_piece(Settings& settings);

/// Takes the tokens with the largest sum of scores.
ModelPointer make_unigram(Settings& settings);

/// One of the above.
ModelPointer make_model(Settings settings);

}  // namespace lockstep::tokenizers
