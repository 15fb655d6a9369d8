// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::cluster {

/// The host names in a node list of Slurm, in its order: "a[1-2,05]b[3-4],c" gives a1b3, a1b4, a2b3, a2b4,
/// a05b3, a05b4, c. A range keeps the leading zeros of its first number. Throws InitializationError if the
/// text is not such a list, has more than a million names, or one of more than 255 characters.
std::vector<std::string> expand_node_list(const std::string& text);

}  // namespace lockstep::cluster
