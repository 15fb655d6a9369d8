// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/tokenizer.h"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/json_depth.h"
#include "lockstep/base/read_file.h"
#include "lockstep/base/text.h"
#include "lockstep/tokenizers/added_tokens.h"
#include "lockstep/tokenizers/decoder.h"
#include "lockstep/tokenizers/model.h"
#include "lockstep/tokenizers/normalizer.h"
#include "lockstep/tokenizers/post_processor.h"
#include "lockstep/tokenizers/pre_tokenizer.h"
#include "lockstep/tokenizers/sentencepiece.h"
#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {
namespace {

constexpr std::size_t kDeepest = 64;  // brackets of a file

/// A component of the file; an empty function where it has none.
template <class T>
T component(Settings& file, std::string_view name, T (*make)(const Settings&)) {
  return file.has(name) ? make(file.object(name)) : T();
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(Settings file)
      : normalizer(component(file, "normalizer", make_normalizer)),
        pre_tokenizer(component(file, "pre_tokenizer", make_pre_tokenizer)),
        model(make_model(file.object("model"))),
        added(file, model->vocabulary(), normalizer),
        post_processor(component(file, "post_processor", make_post_processor)),
        decoder(component(file, "decoder", make_decoder)) {
    if (file.has("truncation")) truncation.emplace(file.object("truncation"));
    if (file.has("padding")) padding.emplace(file.object("padding"));
    file.text("version", "");
    file.end();
  }

  /// Appends the ids of a piece, which are remembered for the next piece with the same text.
  void tokenize(std::string piece, std::unordered_map<std::string, std::vector<std::int32_t>>& known,
                std::vector<std::int32_t>& ids) const {
    const auto [entry, is_new] = known.try_emplace(std::move(piece));
    if (is_new) model->tokenize(entry->first, entry->second);
    ids.insert(ids.end(), entry->second.begin(), entry->second.end());
  }

  std::optional<std::string_view> token(std::int32_t id) const {
    const auto found = added.token(id);
    return found ? found : model->vocabulary().token(id);
  }

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  ModelPointer model;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
};

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::from_file(const std::string& path) {
  const auto [text, unread] = read_file(path);
  if (unread != 0) fail<DataError>("[tokenizers] {} cannot be read: {}", path, std::strerror(unread));
  try {
    return is_sentencepiece(text) ? from_sentencepiece(text) : from_json(text);
  } catch (const DataError& error) {
    fail<DataError>("{} (in {})", error.what(), path);
  }
}

Tokenizer Tokenizer::from_json(std::string_view text) {
  if (const std::size_t depth = json_depth(text); depth > kDeepest)
    fail<DataError>("[tokenizers] the file's brackets are nested {} deep; supported are {}", depth, kDeepest);
  nlohmann::json file;
  try {
    file = parse_json(text);
  } catch (const nlohmann::json::exception& error) {
    fail<DataError>("[tokenizers] expected a file tokenizer.json, which is JSON: {}", error.what());
  }
  return Tokenizer(std::make_shared<const Parts>(Settings(file, "tokenizer")));
}

Tokenizer Tokenizer::from_sentencepiece(std::string_view bytes) {
  const nlohmann::json file = json_of_sentencepiece(bytes);
  return Tokenizer(std::make_shared<const Parts>(Settings(file, "tokenizer")));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (const std::size_t at = valid_bytes(text); at < text.size())
    fail<DataError>("[tokenizers] encode expects UTF-8, got byte 0x{:02x} at position {} of {} bytes",
                    static_cast<unsigned char>(text[at]), at, text.size());
  std::vector<Piece> pieces = parts_->added.split(text);
  if (parts_->pre_tokenizer) parts_->pre_tokenizer(pieces);
  std::unordered_map<std::string, std::vector<std::int32_t>> known;
  std::vector<std::int32_t> ids;
  for (Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
    } else if (!piece.text.empty()) {
      parts_->tokenize(std::move(piece.text), known, ids);
    }
  }
  const bool adds = options.add_special_tokens && parts_->post_processor;
  if (parts_->truncation) {
    std::vector<std::int32_t> added;
    if (adds) parts_->post_processor(added);
    parts_->truncation->apply(ids, added.size());
  }
  if (adds) parts_->post_processor(ids);
  if (parts_->padding) parts_->padding->apply(ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, DecodeOptions options) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    if (options.skip_special_tokens && parts_->added.is_special(id)) continue;
    if (const auto token = parts_->token(id)) tokens.emplace_back(*token);
  }
  if (parts_->decoder) parts_->decoder(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts_->decoder) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = parts_->added.id(token);
  return found ? found : parts_->model->vocabulary().id(token);
}

std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  const auto found = parts_->token(id);
  return found ? std::optional(std::string(*found)) : std::nullopt;
}

std::size_t Tokenizer::vocab_size() const {
  return parts_->model->vocabulary().size() + parts_->added.size_beyond();
}

}  // namespace lockstep::tokenizers
