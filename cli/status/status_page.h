// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// The contents of status_page.html, which the build embeds into this program.
extern const std::string_view kStatusPageHtml;

/// The same, for the server.
std::shared_ptr<const std::string> status_page();

/// Its Content-Security-Policy: its own script and style, by their hashes, and requests to its own server.
std::string status_page_policy();

}  // namespace lockstep::cli
