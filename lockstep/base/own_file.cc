// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <random>
#include <system_error>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/owners.h"
#include "lockstep/base/path_walk.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

PathEnd walk_own_links(const std::string& path, const Owners& owners) {
  return walk_path(path, [&](const PathPart& part) {
    if (S_ISLNK(part.status.st_mode) && !owners.trusts_owner(part.status))
      fail("the link {} belongs to user {}: give another place", shown(part.path),
           name_of_user(part.status.st_uid));
  });
}

void check_existing(const PathEnd& end, const struct stat& status, const Owners& owners) {
  if (end.is_magic) return;  // such as /dev/stdout: this process has it open
  if (!owners.trusts_owner(status))
    fail("it belongs to user {}: remove it, or give another name", name_of_user(status.st_uid));
  if (S_ISREG(status.st_mode) && status.st_nlink > 1 && (end.folder_status.st_mode & S_IWOTH) != 0)
    fail(
        "it is a hard link to a file with another name, and others can write to its folder: remove it, or "
        "give another name");
}

int error_of(const std::system_error& error) { return error.code().value(); }

std::string words_of(int error) { return error == ENXIO ? "nobody reads from it" : describe_error(error); }

}  // namespace

OwnFile open_own_file(const std::string& path, int flags, mode_t mode) {
  OwnFile result;
  const int access = (flags & O_ACCMODE) == O_RDWR ? O_RDWR : O_WRONLY;
  try {
    const Owners owners;
    int error = 0;
    for (int tries = 0; tries < 10; ++tries) {
      const PathEnd end = walk_own_links(path, owners);
      const int creating = end.status ? 0 : O_CREAT | O_EXCL;
      if (end.status) check_existing(end, *end.status, owners);
      FileDescriptor file(end.open(access | O_NOCTTY | creating | (flags & ~O_TRUNC), mode));
      struct stat status {};
      error = file && fstat(file.get(), &status) == 0 ? 0 : errno;
      // Somebody has made, removed or exchanged it meanwhile.
      if (error == EEXIST || error == ENOENT || error == ELOOP) continue;
      if (error != 0) break;
      check_existing(end, status, owners);
      if ((flags & O_TRUNC) != 0 && S_ISREG(status.st_mode) && ftruncate(file.get(), 0) != 0) {
        error = errno;
        break;
      }
      result.file = std::move(file);
      return result;
    }
    result.why_not = words_of(error);
  } catch (const std::system_error& error) {
    result.why_not = words_of(error_of(error));
  } catch (const std::exception& error) {
    result.why_not = error.what();
  }
  return result;
}

std::string make_own_folders(const std::string& path, mode_t mode) {
  try {
    const Owners owners;
    for (int tries = 0; tries < 10; ++tries) {
      PathEnd end;
      try {
        end = walk_own_links(path, owners);
      } catch (const std::system_error& error) {
        std::filesystem::path above = std::filesystem::path(path);
        if (!above.has_filename()) above = above.parent_path();
        above = above.parent_path();
        if (error_of(error) != ENOENT || above.empty()) throw;
        if (std::string why = make_own_folders(above, mode); !why.empty()) return why;
        continue;
      }
      if (end.status) return S_ISDIR(end.status->st_mode) ? "" : words_of(ENOTDIR);
      if (mkdirat(end.folder.get(), end.name.c_str(), mode) == 0) return "";
      if (errno != EEXIST) return words_of(errno);
    }
    return words_of(EEXIST);
  } catch (const std::system_error& error) {
    return words_of(error_of(error));
  } catch (const std::exception& error) {
    return error.what();
  }
}

NewFolder make_new_folder(const std::string& path) {
  NewFolder made{path, ""};
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  try {
    const PathEnd end = walk_own_links(above.empty() ? "." : above.native(), Owners());
    const FileDescriptor folder(end.open(O_PATH | O_DIRECTORY));
    for (int tries = 0; tries < 10; ++tries) {
      const std::string name = std::filesystem::path(made.path).filename();
      if (folder && mkdirat(folder.get(), name.c_str(), kPrivateFolder) == 0) return made;
      if (errno != EEXIST) break;
      made.path = fmt::format("{}-{:08x}", path, std::random_device()());
    }
    made.why_not = words_of(errno);
  } catch (const std::system_error& error) {
    made.why_not = words_of(error_of(error));
  } catch (const std::exception& error) {
    made.why_not = error.what();
  }
  return made;
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string write_own_file(const std::string& path, std::string_view text, mode_t mode) {
  OwnFile opened = open_own_file(path, O_TRUNC, mode);
  if (!opened.file) return opened.why_not;
  const int error = write_all(opened.file.get(), text);
  return error == 0 ? "" : words_of(error);
}

}  // namespace lockstep
