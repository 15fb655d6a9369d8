// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace internal {

/// The message as `shown_lines` (base/text.h) writes it: names in it may come from outside.
std::string shown_message(std::string message);

}  // namespace internal

/// Throws an `E` whose message is the formatted text, without control characters except line ends and tabs.
template <class E = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(internal::shown_message(fmt::format(format, std::forward<Args>(args)...)));
}

/// Throws an InternalError with the formatted text and the request to report it.
template <class... Args>
[[noreturn]] void fail_internally(fmt::format_string<Args...> format, Args&&... args) {
  fail<InternalError>("{}: this is an internal error of Lockstep; please report it, with this message",
                      fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
