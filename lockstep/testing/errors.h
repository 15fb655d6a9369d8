// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace lockstep::testing {

/// The message of the E that `action` throws; if it throws none, the test fails. Other exceptions pass
/// through.
template <class E>
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// The message of an error without its consequences: only the first cause.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace lockstep::testing
