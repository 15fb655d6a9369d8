#pragma once

#include <filesystem>
#include <optional>

namespace lockstep {

/// How many CPUs' time the control groups of this process give it, as containers and batch systems limit it:
/// 1.5 for one and a half. nullopt if nothing limits it. `root` has proc/ and sys/ in it.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace lockstep
