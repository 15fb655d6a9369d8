// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep::tokenizers {

/// Whether the bytes are a model of sentencepiece (tokenizer.model) and not JSON: they begin with a piece.
bool is_sentencepiece(std::string_view bytes);

/// The model as a tokenizer.json that gives its ids. Control symbols become special tokens, which text does
/// not contain; there is no post-processor, as sentencepiece itself adds none of them. Throws DataError for
/// bytes that are no model, pieces that are no UTF-8 or are there twice, and kinds of models and of white
/// space that are not supported.
nlohmann::json json_of_sentencepiece(std::string_view bytes);

}  // namespace lockstep::tokenizers
