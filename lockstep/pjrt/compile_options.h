// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {

/// The options as a serialized `xla.CompileOptionsProto` (xla/pjrt/proto/compile_options.proto), with one
/// partition: for a portable executable, or for a replica on each of the devices. `platform` is the client's
/// platform.
std::string serialize(const CompileOptions& options, std::string_view platform);

}  // namespace lockstep::pjrt
