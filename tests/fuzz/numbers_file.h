// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "tests/fuzz/run.h"

namespace lockstep::fuzz {

/// The results of the programs of some seeds, in a file for other processes of this machine.
void write_numbers(const std::filesystem::path& file,
                   const std::map<std::uint64_t, std::vector<Numbers>>& all);
std::map<std::uint64_t, std::vector<Numbers>> read_numbers(const std::filesystem::path& file);

}  // namespace lockstep::fuzz
