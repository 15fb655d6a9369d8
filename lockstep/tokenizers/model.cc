// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/model.h"

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::tokenizers {
namespace {

constexpr Kind<ModelPointer> kModels[] = {
    {"BPE", make_bpe}, {"WordPiece", make_word_piece}, {"Unigram", make_unigram}};

}  // namespace

Vocabulary::Vocabulary(Settings& settings, std::string_view name) {
  const nlohmann::json& tokens = settings.value(name);
  if (!tokens.is_object()) settings.refuse(name, "an object", tokens);
  ids_.reserve(tokens.size());
  tokens_.reserve(tokens.size());
  for (const auto& [text, value] : tokens.items()) {
    const std::int32_t id = id_of(value, settings, name);
    if (!add(text, id))
      fail<DataError>("[tokenizers] {}: the tokens \"{}\" and \"{}\" have the same id {}", settings.where(),
                      shown(*token(id), 80), shown(text, 80), id);
  }
}

bool Vocabulary::add(const std::string& token, std::int32_t id) {
  if (tokens_.contains(id)) return false;
  tokens_[id] = ids_.insert_or_assign(token, id).first->first;
  return true;
}

std::optional<std::int32_t> Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> Vocabulary::token(std::int32_t id) const {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return std::nullopt;
  return found->second;
}

std::int32_t Vocabulary::unknown_id(std::string_view token, const std::string& where) const {
  const auto found = id(token);
  if (!found)
    fail<DataError>(
        "[tokenizers] {}: the text has an unknown character, and \"unk_token\" is not in \"vocab\"", where);
  return *found;
}

ByteTokens::ByteTokens(const Vocabulary& vocabulary) {
  for (std::size_t byte = 0; byte < ids_.size(); ++byte)
    ids_[byte] = vocabulary.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

bool ByteTokens::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (const char c : text) {
    const std::int32_t id = ids_[static_cast<unsigned char>(c)];
    if (id < 0) {
      ids.resize(before);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

ModelPointer make_model(Settings settings) {
  // Files of before 2021 do not name the type.
  const char* const otherwise = settings.has("merges")   ? "BPE"
                                : settings.has("unk_id") ? "Unigram"
                                                         : "WordPiece";
  return make_kind<ModelPointer>(std::move(settings), kModels, otherwise);
}

}  // namespace lockstep::tokenizers
