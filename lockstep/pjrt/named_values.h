#pragma once

// For the sources of this folder only: it shows the types of the PJRT C API.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/client.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace lockstep::pjrt {

/// The options as the C API takes them; they point into `options`.
std::vector<PJRT_NamedValue> named_values(const ClientOptions& options);

/// What the C API gives, copied.
std::map<std::string, NamedValue> values_by_name(std::span<const PJRT_NamedValue> values);

}  // namespace lockstep::pjrt
