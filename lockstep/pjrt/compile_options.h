#pragma once

#include <string>

#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {

/// The options as a serialized `xla.CompileOptionsProto` (xla/pjrt/proto/compile_options.proto), of one
/// partition: for a portable executable, or for a replica on each of the devices.
std::string serialize(const CompileOptions& options);

}  // namespace lockstep::pjrt
