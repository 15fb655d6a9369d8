// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"

namespace lockstep::testing {

/// Where a test's data is: at its path in the source tree, or, where the test was carried to another machine,
/// in the folder LOCKSTEP_TEST_DATA.
inline std::filesystem::path data_file(const std::filesystem::path& in_source) {
  const auto folder = Environment::process().get("LOCKSTEP_TEST_DATA");
  return folder ? std::filesystem::path(*folder) / in_source.filename() : in_source;
}

}  // namespace lockstep::testing
