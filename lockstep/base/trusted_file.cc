// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/trusted_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/base/owners.h"
#include "lockstep/base/path_walk.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

PathEnd checked_walk(const std::string& path) {
  const Owners owners;
  return walk_path(path, [&](const PathPart& part) {
    const std::string wrong = owners.distrust(part.status, part.descriptor);
    if (wrong.empty()) return;
    const char* const kind = S_ISDIR(part.status.st_mode)   ? "the folder "
                             : S_ISLNK(part.status.st_mode) ? "the link "
                                                            : "";
    fail("{}{} {}", kind, shown(part.path), wrong);
  });
}

void check_regular(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) fail("{} is {}, not a regular file", shown(path), kind_of(status.st_mode));
}

/// Adds the folders in which the loader searches for what an object needs.
void add_folders_of(void* object, std::vector<std::string>* folders) {
  Dl_serinfo size{};
  if (object == nullptr || dlinfo(object, RTLD_DI_SERINFOSIZE, &size) != 0) return;
  std::vector<std::max_align_t> storage(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const found = reinterpret_cast<Dl_serinfo*>(storage.data());
  *found = size;
  if (dlinfo(object, RTLD_DI_SERINFO, found) != 0) return;
  for (unsigned i = 0; i < found->dls_cnt; ++i) {
    const std::string folder = found->dls_serpath[i].dls_name;
    if (std::ranges::find(*folders, folder) == folders->end()) folders->push_back(folder);
  }
}

}  // namespace

TrustedFile open_trusted_file(const std::string& path) {
  TrustedFile result;
  try {
    const PathEnd end = checked_walk(path);
    if (!end.status) return result;
    check_regular(path, *end.status);
    // Another of this user's processes may put something else there: it must not block.
    FileDescriptor file(end.open(O_RDONLY | O_NONBLOCK | O_NOCTTY));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0) {
      if (errno != ENOENT)
        result.why_not = fmt::format("{} cannot be read: {}", shown(path), describe_error(errno));
      return result;
    }
    check_regular(path, status);
    result.size = status.st_size;
    result.file = std::move(file);
  } catch (const std::system_error& error) {
    if (error.code().value() != ENOENT)
      result.why_not =
          fmt::format("{} cannot be read: {}", shown(path), describe_error(error.code().value()));
  } catch (const std::exception& error) {
    result.why_not = error.what();
  }
  return result;
}

std::string distrust_folder(const std::string& path) {
  std::string nearest = path;
  while (true) {
    try {
      const PathEnd end = checked_walk(nearest);
      if (end.status && !S_ISDIR(end.status->st_mode))
        return fmt::format("{} is not a folder", shown(nearest));
      return "";
    } catch (const std::system_error& error) {
      const std::filesystem::path above = std::filesystem::path(nearest).parent_path();
      if (error.code().value() != ENOENT || above.empty() || above == nearest)
        return fmt::format("{} cannot be checked: {}", shown(nearest), describe_error(error.code().value()));
      nearest = above;
    } catch (const std::exception& error) {
      return error.what();
    }
  }
}

std::string read_all(const TrustedFile& file, std::int64_t most) {
  if (file.size > most) fail("it has {} bytes, expected at most {}", file.size, most);
  std::string bytes;
  try {
    bytes.resize(static_cast<std::size_t>(file.size));
  } catch (const std::bad_alloc&) {
    fail("there is no memory for its {} bytes{}", file.size, limit_behind(ENOMEM));
  }
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        pread(file.file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("it cannot be read: {}", describe_error(errno));
    if (count == 0) bytes.resize(done);
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

TrustedPath first_trusted(const std::vector<std::string>& paths) {
  TrustedPath result;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const TrustedFile file = open_trusted_file(path);
    if (file) {
      result.path = path;
      break;
    }
    if (!file.why_not.empty())
      result.refused.push_back(fmt::format("{} is not used: {}", shown(path), file.why_not));
  }
  return result;
}

std::vector<std::string> library_paths(const std::string& file) {
  std::vector<std::string> folders, paths;
  add_folders_of(dlopen(nullptr, RTLD_LAZY), &folders);
  // A user's library that Lockstep is linked into has its own RUNPATH. In a program, this dlopen gives
  // nothing.
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&library_paths), &self) != 0)
    add_folders_of(dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), &folders);
  struct stat ignored;
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder) / file;
    if (lstat(path.c_str(), &ignored) == 0) paths.push_back(path);
  }
  return paths;
}

void* load_trusted_library(const std::string& file, std::string* why_not) {
  if (void* const loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  const TrustedPath found = first_trusted(library_paths(file));
  for (const std::string& refused : found.refused) logging::warning("{}", refused);
  // The loader would take what was refused; the system's further folders stand in its cache.
  if (found.path.empty() && !found.refused.empty()) {
    *why_not = fmt::format("{}", fmt::join(found.refused, "; "));
    return nullptr;
  }
  const std::string path = found.path.empty() ? file : std::filesystem::absolute(found.path).native();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) *why_not = dlerror();
  return library;
}

}  // namespace lockstep
