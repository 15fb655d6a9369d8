#pragma once

#include <string>

#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {

/// The options as a serialized `xla.CompileOptionsProto` (xla/pjrt/proto/compile_options.proto), for a
/// portable executable of one replica and one partition.
std::string serialize(const CompileOptions& options);

}  // namespace lockstep::pjrt
