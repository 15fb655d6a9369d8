// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declarations that the tests of plans share.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::test {

/// Why nothing can be compiled for TPUs here; empty where it can.
inline std::string no_tpu_compiler() {
  if (pjrt::first_plugin(pjrt::default_plugin_paths("tpu")).empty())
    return "libtpu was not fetched: scripts/setup --tpu";
  return "";
}

/// Whether everything is compiled, for each of the topologies, which takes many minutes.
inline bool all_asked() {
  return testing::long_tests() || Environment::process().get("LOCKSTEP_PLAN_ALL") == "1";
}

inline std::vector<std::string> topologies() {
  if (all_asked()) return {"v5e:4x4", "v5e:16x16", "v5p:8x8x16"};
  return {"v5e:4x4"};
}

/// The plan that a process has written into its folder.
inline nlohmann::json plan_in(const std::filesystem::path& folder) {
  return nlohmann::json::parse(std::ifstream(folder / "plan.json"));
}

}  // namespace lockstep::test
