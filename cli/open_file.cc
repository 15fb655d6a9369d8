// SPDX-License-Identifier: Apache-2.0
#include "cli/open_file.h"

#include <fcntl.h>

#include <cerrno>

#include "lockstep/base/limits.h"

namespace lockstep::cli {

int open_for_writing(const std::filesystem::path& file, int flags) {
  return open(file.c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | flags, 0666);
}

std::string describe_open_error(int error) {
  return error == ENXIO ? "nobody reads from it" : describe_error(error);
}

}  // namespace lockstep::cli
