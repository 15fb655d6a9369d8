// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace lockstep {

/// The number of CPUs to which the control groups of this process limit its CPU time, as in containers and
/// batch systems: 1.5 for one and a half. nullopt if there is no limit. `root` contains proc/ and sys/.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace lockstep
