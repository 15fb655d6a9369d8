// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the sources of this folder: it includes the types of the PJRT C API.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/client.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace lockstep::pjrt {

/// The options in the C API's form; the result points into `options`.
std::vector<PJRT_NamedValue> named_values(const ClientOptions& options);

/// A copy of values of the C API.
std::map<std::string, NamedValue> values_by_name(std::span<const PJRT_NamedValue> values);

}  // namespace lockstep::pjrt
