// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

struct FileRead {
  std::string bytes;
  int error = 0;  ///< of errno; 0 if the whole file was read
};

/// Reads a file of any kind to its end; blocks at a pipe until its writer ends. A folder is an error, which
/// streams throw past the reader.
FileRead read_file(const std::string& path);

}  // namespace lockstep
