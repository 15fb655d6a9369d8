// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// A part of the text on its way to the model.
struct Piece {
  std::string text;
  bool at_start = false;  ///< whether its first character is, or comes from, the first one of the whole text
  std::int32_t id = -1;   ///< of the added token that it is; -1 if it is none
};

/// Changes the text of a piece.
using Normalizer = std::function<void(Piece&)>;

/// The normalizer of these settings. Throws a DataError for what is not supported.
Normalizer make_normalizer(const Settings& settings);

}  // namespace lockstep::tokenizers
