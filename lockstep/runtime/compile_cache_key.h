// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/pjrt/client.h"

namespace lockstep::runtime {

/// Everything that determines the result of a compilation, as text: the plugin (its file, version and
/// attributes), the processor's features, the size of XLA's pool, XLA_FLAGS, the kinds of devices, the
/// compile options and the program's digest. Code is only valid for one key.
std::string compile_cache_key(const pjrt::Client& client, const pjrt::CompileOptions& options,
                              std::string_view stablehlo);

/// The machines for which machine code is valid: it is equal on hosts whose plugins have the same version and
/// whose processors have the same features and number.
std::string machine_identity(const pjrt::Client& client);

/// Where machine code can be used: it is the same text on machines of which one can use what the other has
/// compiled.
struct CodeIdentity {
  std::string platform;  ///< "cpu"
  std::string plugin;    ///< its versions
  std::string machine;   ///< for CPUs: the processor's features and the number of processors
};
CodeIdentity code_identity(const pjrt::Plugin& plugin, const std::string& platform);

/// Distinguishes a file from other builds of it: its size, its modification time and a digest of 256 of its
/// pages, because it is too large to be read at each start. Empty if it cannot be read.
std::string file_identity(const std::string& path);

/// The lines for the first processor in /proc/cpuinfo that describe its instruction set.
std::string processor_features(std::string_view cpuinfo);

}  // namespace lockstep::runtime
