// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::watch {

/// A mesh over which processes that must launch the same programs have not done so.
struct Difference {
  std::uint64_t mesh = 0, number = 0;  ///< the earliest launch that differs
  struct Side {
    std::vector<int> processes;
    std::string what, site, text;  ///< empty: they have launched nothing else
  };
  std::vector<Side> sides;    ///< the one with the most processes first; of as many, by their first process
  bool unchecked = false;     ///< nothing else ends the job for it: MeshReport::unchecked
  bool earlier_lost = false;  ///< earlier launches are no longer known: there may be an earlier difference
};

/// Whether the processes' hashes at the last common launch differ: cheap, without the logs. Meshes over which
/// several threads launch are ignored.
bool hashes_differ(std::span<const ProcessReport> reports);

/// The earliest launch that differs, from reports with logs.
std::optional<Difference> find_difference(std::span<const ProcessReport> reports);

std::string describe(const Difference& difference, int process_count);

}  // namespace lockstep::watch
