// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::storage {

/// Names and values of a URL's query, not encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

/// Percent-encodes every byte except A-Z a-z 0-9 - . _ ~, and "/" if `keep_slashes`: the form that S3 and its
/// signatures use.
std::string uri_encode(std::string_view text, bool keep_slashes = false);

/// The inverse, with "+" as a space, as S3 encodes keys in lists. Invalid escapes are unchanged.
std::string uri_decode(std::string_view text);

/// "a=1&b=", encoded and sorted as signatures require.
std::string query_string(const Query& query);

}  // namespace lockstep::storage
