// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::data {

/// The bytes of a file; files compressed by gzip or dictzip are decompressed. Throws DataError, with the
/// path, for a file that cannot be read or is truncated.
std::string read_text(const std::string& url);

namespace internal {
/// The same, with this operation in messages.
std::string read_whole(const char* operation, const std::string& url);
}  // namespace internal

}  // namespace lockstep::data
