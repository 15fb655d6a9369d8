// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/base/file_descriptor.h"

namespace lockstep {

FileRead read_file(const std::string& path) {
  FileRead read;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {{}, errno};
  std::array<char, 1 << 16> some;
  while (true) {
    const ssize_t size = ::read(file.get(), some.data(), some.size());
    if (size > 0) read.bytes.append(some.data(), static_cast<std::size_t>(size));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) read.error = errno;
    if (size <= 0) return read;
  }
}

}  // namespace lockstep
