// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::metrics {

AppendedFile::AppendedFile(std::filesystem::path path, bool lines) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) refuse(error.value());
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(errno);
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) {
    const int why = errno;
    ::close(descriptor_);
    refuse(why);
  }
  size_ = status.st_size;
  if (lines) cut_after_last_line();
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::refuse(int error) const {
  fail("{}: {}", path_.string(), std::error_code(error, std::generic_category()).message());
}

void AppendedFile::cut_after_last_line() {
  char block[4096];
  for (std::int64_t end = size_; end > 0;) {
    const std::int64_t start = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(sizeof block));
    const ssize_t count = ::pread(descriptor_, block, static_cast<std::size_t>(end - start), start);
    if (count <= 0) return;
    const std::size_t newline = std::string_view(block, static_cast<std::size_t>(count)).rfind('\n');
    end = newline == std::string_view::npos ? start : start + static_cast<std::int64_t>(newline) + 1;
    if (newline == std::string_view::npos && end > 0) continue;
    if (end < size_ && ::ftruncate(descriptor_, end) == 0) size_ = end;
    return;
  }
}

void AppendedFile::append(std::string_view record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = ::write(descriptor_, record.data() + done, record.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      const int why = errno;
      if (done > 0 && ::ftruncate(descriptor_, size_) != 0) size_ += static_cast<std::int64_t>(done);
      refuse(why);
    }
  }
  size_ += static_cast<std::int64_t>(done);
}

}  // namespace lockstep::metrics
