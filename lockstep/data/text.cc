// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "lockstep/base/fail.h"

namespace lockstep::data {

std::string internal::read_whole(const char* operation, const std::string& path) {
  errno = 0;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    fail<DataError>("[{}] cannot open {}: {}", operation, path,
                    errno != 0 ? std::strerror(errno) : "out of memory");
  std::string text;
  char block[1 << 16];
  while (true) {
    int got = gzread(file.get(), block, sizeof block);
    if (got > 0) text.append(block, static_cast<std::size_t>(got));
    if (got == static_cast<int>(sizeof block)) continue;
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (code == Z_ERRNO) fail<DataError>("[{}] cannot read {}: {}", operation, path, std::strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END) {
      fail<DataError>("[{}] {} is damaged or cut off ({}); fetch it again", operation, path, message);
    }
    return text;
  }
}

std::string read_text(const std::string& path) { return internal::read_whole("read_text", path); }

}  // namespace lockstep::data
