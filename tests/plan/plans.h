#pragma once

// What the tests of plans share.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/pjrt/plugin.h"

namespace lockstep::test {

/// Why nothing can be compiled for TPUs here; empty where it can.
inline std::string no_tpu_compiler() {
  if (pjrt::first_existing(pjrt::default_plugin_paths("tpu")).empty())
    return "libtpu was not fetched: scripts/setup --tpu";
  return "";
}

/// The plan that a process has written into its folder.
inline nlohmann::json plan_in(const std::filesystem::path& folder) {
  return nlohmann::json::parse(std::ifstream(folder / "plan.json"));
}

}  // namespace lockstep::test
