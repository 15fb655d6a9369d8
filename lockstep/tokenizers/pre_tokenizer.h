// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/tokenizers/normalizer.h"
#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// Splits pieces into smaller ones, none of which is empty, and may change their texts. Added tokens stay.
using PreTokenizer = std::function<void(std::vector<Piece>& pieces)>;

/// The pre-tokenizer of these settings. Throws a DataError for what is not supported.
PreTokenizer make_pre_tokenizer(const Settings& settings);

}  // namespace lockstep::tokenizers
