#pragma once

#include <string>

namespace lockstep {

/// The name of the host that this process runs on; "unknown" if it has none.
std::string host_name();

}  // namespace lockstep
