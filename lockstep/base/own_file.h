// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "lockstep/base/file_descriptor.h"

namespace lockstep {

// Files that this process writes for its user (docs/files.md). Their modes are those that are given here, or
// less by the umask. A link, FIFO or file of an owner who is not trusted (lockstep/base/owners.h) is an error
// and is not written to; neither is a file that has a second name in a folder that others can write.

inline constexpr mode_t kPrivateFile = 0600, kPrivateFolder = 0700;  ///< for output and secrets
inline constexpr mode_t kReadableFile = 0644, kReadableFolder = 0755;

struct OwnFile {
  FileDescriptor file;
  std::string why_not;  ///< "No space left on device", "it belongs to user bob (uid 1002): ..."
};

/// Opens a file for writing; creates it, as a new file that was not there, if it does not exist. `flags`:
/// further ones of open(2), also O_RDWR. With O_NONBLOCK a FIFO without a reader is not waited for: "nobody
/// reads from it".
OwnFile open_own_file(const std::string& path, int flags, mode_t mode = kPrivateFile);

/// Creates the folder, and those above it, where they do not exist. Returns why it could not, or "".
std::string make_own_folders(const std::string& path, mode_t mode = kPrivateFolder);

/// A new folder of this name, for this user only, below one that exists; with something random behind the
/// name if that is taken.
struct NewFolder {
  std::string path, why_not;
};
NewFolder make_new_folder(const std::string& path);

/// Writes all bytes; 0 or errno.
int write_all(int descriptor, std::string_view bytes);

/// Writes a file of this text, instead of an earlier one. Returns why it could not, or "".
std::string write_own_file(const std::string& path, std::string_view text, mode_t mode = kPrivateFile);

}  // namespace lockstep
