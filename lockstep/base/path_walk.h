// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/file_descriptor.h"

namespace lockstep {

/// A folder, symbolic link or file on the way to a file.
struct PathPart {
  std::string path;  ///< absolute, without links
  struct stat status;
  int descriptor;  ///< opened with O_PATH, while it is checked
};

/// Where a path ends.
struct PathEnd {
  FileDescriptor folder;  ///< opened with O_PATH: the folder of the last name
  struct stat folder_status;
  std::string name;                   ///< the last name; the path itself may have ended in links
  std::string path;                   ///< absolute, without links
  std::optional<struct stat> status;  ///< nullopt: there is nothing of this name
  bool is_magic = false;              ///< the name is a link of /proc, which only the kernel can follow

  /// Opens it, without following a link that was put there since. -1 with errno if that fails.
  int open(int flags, mode_t mode = 0) const;
};

/// Follows the path name by name, as the kernel does, and calls `check` for every folder from / on, every
/// symbolic link, and the file or folder at the end, before it goes on. Each folder is held open on the way,
/// so nobody can exchange what was checked. Starts automounts, as open(2) does. Throws std::system_error if a
/// folder is missing or cannot be entered, and what `check` throws.
PathEnd walk_path(const std::string& path, const std::function<void(const PathPart&)>& check);

}  // namespace lockstep
