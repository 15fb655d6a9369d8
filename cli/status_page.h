#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// status_page.html, as the build has put it into this program.
extern const std::string_view kStatusPageHtml;

/// The same, for the server.
std::shared_ptr<const std::string> status_page();

/// Its Content-Security-Policy: its own script and style, by their hashes, and requests to where it comes
/// from.
std::string status_page_policy();

}  // namespace lockstep::cli
