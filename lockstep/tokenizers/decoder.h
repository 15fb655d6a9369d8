// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// Makes parts of the text of tokens. What it leaves is put together.
using Decoder = std::function<void(std::vector<std::string>& tokens)>;

/// The decoder of these settings. Throws a DataError for what is not supported.
Decoder make_decoder(const Settings& settings);

}  // namespace lockstep::tokenizers
