// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/file_descriptor.h"

namespace lockstep {

// The rule for everything that is executed or believed from a disk (docs/files.md): the file, each folder
// above it and each link on the way belong to trusted owners (lockstep/base/owners.h), nobody else can write
// to the file or exchange a folder, and it is a regular file. Such a file can only be changed by those who
// are trusted, also after it was checked. No function here throws, except read_all.

/// A file that was checked.
struct TrustedFile {
  FileDescriptor file;  ///< open for reading, if it can be trusted
  std::int64_t size = 0;
  std::string why_not;  ///< what is wrong with which path, and what to do; empty if no such file exists

  explicit operator bool() const { return static_cast<bool>(file); }
};

TrustedFile open_trusted_file(const std::string& path);

/// Why files in the folder cannot be trusted; empty if they can. Of a folder that does not exist: of the
/// nearest one above it that does.
std::string distrust_folder(const std::string& path);

/// The whole contents. Throws Error, and takes no memory, if they are more than `most` bytes; and if they
/// cannot be read or there is not enough memory.
std::string read_all(const TrustedFile& file, std::int64_t most);

/// The first of the paths at which there is a file that can be trusted.
struct TrustedPath {
  std::string path;                  ///< empty if there is none
  std::vector<std::string> refused;  ///< why files at earlier paths are not used: "PATH is not used: ..."
};
TrustedPath first_trusted(const std::vector<std::string>& paths);

/// The paths of a shared library in the folders in which this program looks for libraries: LD_LIBRARY_PATH,
/// its RUNPATH, the system's; then that of the user's library that Lockstep is linked into, if there is one.
/// An installed Lockstep adds its own folder to the RUNPATH, and a build tree its own. Only those that exist.
std::vector<std::string> library_paths(const std::string& file);

/// Loads a library as dlopen does with RTLD_NOW | RTLD_LOCAL, by its name. What is loaded already is taken;
/// otherwise the first file in these folders, or the system's cache, that can be trusted. Others before it
/// are logged as warnings. nullptr, and `why_not`, if there is none.
void* load_trusted_library(const std::string& file, std::string* why_not);

}  // namespace lockstep
