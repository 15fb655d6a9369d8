#pragma once

#include <string>
#include <string_view>

#include "lockstep/pjrt/client.h"

namespace lockstep::runtime {

/// All that decides what a compiler makes of the program, as text: the plugin (its file, version and what it
/// says of itself), the processor's features, the size of XLA's pool, XLA_FLAGS, the kinds of devices, the
/// compile options and the program's digest. Code is good for one key only.
std::string compile_cache_key(const pjrt::Client& client, const pjrt::CompileOptions& options,
                              std::string_view stablehlo);

/// What machine code is good for: the same on hosts whose plugins are of one version and whose processors
/// have the same features and number.
std::string machine_identity(const pjrt::Client& client);

/// What tells a file from another build of it: its size, the time of its last change and the digest of 256
/// pages of it, for it is too large to be read at each start. Empty where it cannot be read.
std::string file_identity(const std::string& path);

/// The lines of the first processor in /proc/cpuinfo that say what its instructions are.
std::string processor_features(std::string_view cpuinfo);

}  // namespace lockstep::runtime
