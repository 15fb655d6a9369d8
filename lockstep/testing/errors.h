#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace lockstep::testing {

/// The message of the E that `action` throws; a failure of the test where it throws none. What is no E goes
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

/// What others see of the message of an error: the first cause stands alone in it.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace lockstep::testing
