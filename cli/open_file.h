// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

/// Opens the file for writing, and creates it if it does not exist. `flags`: further ones of open(2). With
/// O_NONBLOCK a FIFO without a reader is not waited for, but is the error ENXIO. -1 with errno if it cannot
/// be opened.
int open_for_writing(const std::filesystem::path& file, int flags);

/// That error in words: "nobody reads from it" for ENXIO, otherwise as describe_error.
std::string describe_open_error(int error);

}  // namespace lockstep::cli
