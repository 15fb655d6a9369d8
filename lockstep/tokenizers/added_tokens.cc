// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/added_tokens.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/tokenizers/pattern.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

/// The first byte of the character before the byte `at`, which is not 0.
std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

/// Whether a word's character is at the byte `at`.
bool word_at(std::string_view text, std::size_t at) {
  static const Pattern kWord =
      regex_pattern("[" + std::string(kWordClass) + "\\u200c\\u200d]", "added_tokens");
  std::size_t end = at;
  next_character(text, end);
  return kWord(text.substr(at, end - at)).front().matches;
}

}  // namespace

AddedTokens::AddedTokens(Settings& file, const Vocabulary& vocabulary, const Normalizer& normalizer)
    : normalizer_(normalizer) {
  std::vector<std::pair<std::string, std::int32_t>> as_they_are, normalized;
  std::vector<Settings> list;
  if (file.has("added_tokens")) list = file.objects("added_tokens");
  for (Settings& token : list) {
    const std::string content = token.text("content");
    const std::int32_t id = id_of(token.value("id"), token, "id");
    const std::int32_t next = static_cast<std::int32_t>(vocabulary.size() + beyond_);
    const std::int32_t expected = added_.id(content).value_or(vocabulary.id(content).value_or(next));
    if (id != expected)
      fail<DataError>(
          "[tokenizers] {}: the token \"{}\" has the id {}; expected {}, its id in the model's vocabulary or "
          "else the next free one",
          token.where(), shown(content, 80), id, expected);
    if (!vocabulary.id(content) && !added_.id(content)) ++beyond_;
    const bool normalizes = token.flag("normalized", true);
    const auto number = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(
        {id, token.flag("single_word", false), token.flag("lstrip", false), token.flag("rstrip", false)});
    if (token.flag("special", false)) special_.insert(id);
    token.end();
    if (content.empty()) continue;  // which is found nowhere
    added_.add(content, id);
    Piece looked_for{content};
    if (normalizes && normalizer_) normalizer_(looked_for);
    texts_[id] = looked_for.text;
    (normalizes ? normalized : as_they_are).emplace_back(looked_for.text, number);
  }
  as_they_are_.emplace(std::move(as_they_are));
  normalized_.emplace(std::move(normalized));
}

std::optional<std::string_view> AddedTokens::token(std::int32_t id) const {
  const auto found = texts_.find(id);
  if (found == texts_.end()) return std::nullopt;
  return found->second;
}

std::vector<Piece> AddedTokens::split(std::string_view text) const {
  std::vector<Piece> parts, pieces;
  std::size_t bytes = 0;
  find({std::string(text), true}, *as_they_are_, parts);
  for (Piece& part : parts) {
    if (part.id >= 0) {
      pieces.push_back(std::move(part));
      continue;
    }
    if (normalizer_) normalizer_(part);
    check_length(bytes += part.text.size());
    find(std::move(part), *normalized_, pieces);
  }
  return pieces;
}

void AddedTokens::find(Piece piece, const Trie& trie, std::vector<Piece>& pieces) const {
  const std::string_view text = piece.text;
  std::size_t taken = 0;  // bytes that are in pieces
  const auto add = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    if (begin < end)
      pieces.push_back({piece.text.substr(begin, end - begin), piece.at_start && begin == 0, id});
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = at, end = at;
    std::int32_t number = -1;
    trie.prefixes(text.substr(at), [&](std::size_t size, std::int32_t found) {
      end = at + size;
      number = found;
    });
    if (number < 0) {
      next_character(text, at);
      continue;
    }
    at = end;
    const Token& token = tokens_[static_cast<std::size_t>(number)];
    if (token.single_word && ((begin > 0 && word_at(text, character_before(text, begin))) ||
                              (end < text.size() && word_at(text, end))))
      continue;
    if (token.left) {
      while (begin > taken) {
        std::size_t before = character_before(text, begin);
        const std::size_t first = before;
        if (!is_white_space(next_character(text, before))) break;
        begin = first;
      }
      begin = std::max(begin, taken);
    }
    if (token.right) {
      for (std::size_t next = end; next < text.size(); end = next)
        if (!is_white_space(next_character(text, next))) break;
    }
    if (begin > taken) add(taken, begin, -1);
    add(begin, end, token.id);
    taken = end;
  }
  if (taken < text.size()) add(taken, text.size(), -1);
}

}  // namespace lockstep::tokenizers
