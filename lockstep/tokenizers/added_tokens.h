// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/tokenizers/model.h"
#include "lockstep/tokenizers/normalizer.h"
#include "lockstep/tokenizers/settings.h"
#include "lockstep/tokenizers/trie.h"

namespace lockstep::tokenizers {

/// The tokens that are found in a text before a model sees it, such as "<s>".
class AddedTokens {
 public:
  /// Of the field `added_tokens` of the file. Throws a DataError if a token has another id than that of the
  /// model's vocabulary or, where this does not have it, the next one. Both others must outlive this.
  AddedTokens(Settings& file, const Vocabulary& vocabulary, const Normalizer& normalizer);

  /// The text as pieces, normalized, none of which is empty.
  std::vector<Piece> split(std::string_view text) const;

  std::optional<std::int32_t> id(std::string_view token) const { return added_.id(token); }
  /// As it stands in a text that is normalized, if it is looked for there.
  std::optional<std::string_view> token(std::int32_t id) const;
  bool is_special(std::int32_t id) const { return special_.contains(id); }

  /// How many of them the model's vocabulary does not have.
  std::size_t size_beyond() const { return beyond_; }

 private:
  struct Token {
    std::int32_t id;
    bool single_word, left, right;
  };

  void find(Piece piece, const Trie& trie, std::vector<Piece>& pieces) const;

  const Normalizer& normalizer_;
  std::vector<Token> tokens_;
  Vocabulary added_;
  std::unordered_map<std::int32_t, std::string> texts_;
  std::unordered_set<std::int32_t> special_;
  std::size_t beyond_ = 0;
  std::optional<Trie> as_they_are_, normalized_;  ///< numbers of tokens, by what is looked for
};

}  // namespace lockstep::tokenizers
