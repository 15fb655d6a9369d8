#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::storage {

/// Names and values of a URL's query, not encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

/// Percent-encodes every byte but A-Z a-z 0-9 - . _ ~, and but "/" where `keep_slashes` says so: what S3 and
/// its signatures take.
std::string uri_encode(std::string_view text, bool keep_slashes = false);

/// The reverse, with "+" as a space, as S3 encodes keys in lists. What is no valid escape stays as it is.
std::string uri_decode(std::string_view text);

/// "a=1&b=", encoded and sorted as signatures need it.
std::string query_string(const Query& query);

}  // namespace lockstep::storage
