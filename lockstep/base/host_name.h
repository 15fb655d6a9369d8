// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// The name of this host, as `shown` makes it; "unknown" if it has none.
std::string host_name();

}  // namespace lockstep
