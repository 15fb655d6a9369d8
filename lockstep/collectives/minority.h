// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::collectives {

/// Given what each of some processes did (a process may appear several times): the processes, sorted, that
/// did not do what more than half of all did; all of them if there is no such majority.
std::vector<int> minority(const std::vector<std::pair<int, std::uint64_t>>& what_each_did);

}  // namespace lockstep::collectives
