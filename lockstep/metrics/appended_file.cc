// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/own_file.h"

namespace lockstep::metrics {

AppendedFile::AppendedFile(std::filesystem::path path, bool lines) : path_(std::move(path)) {
  std::string why = make_own_folders(path_.parent_path(), kReadableFolder);
  if (!why.empty()) refuse(why);
  OwnFile opened = open_own_file(path_, O_RDWR | O_APPEND, kReadableFile);
  if (!opened.file) refuse(opened.why_not);
  struct stat status;
  if (::fstat(opened.file.get(), &status) != 0) refuse(describe_error(errno));
  file_ = std::move(opened.file);
  size_ = status.st_size;
  if (lines) cut_after_last_line();
}

void AppendedFile::refuse(const std::string& why) const { fail("{}: {}", path_.string(), why); }

void AppendedFile::cut_after_last_line() {
  char block[4096];
  for (std::int64_t end = size_; end > 0;) {
    const std::int64_t start = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(sizeof block));
    const ssize_t count = ::pread(file_.get(), block, static_cast<std::size_t>(end - start), start);
    if (count <= 0) return;
    const std::size_t newline = std::string_view(block, static_cast<std::size_t>(count)).rfind('\n');
    end = newline == std::string_view::npos ? start : start + static_cast<std::int64_t>(newline) + 1;
    if (newline == std::string_view::npos && end > 0) continue;
    if (end < size_ && ::ftruncate(file_.get(), end) == 0) size_ = end;
    return;
  }
}

void AppendedFile::append(std::string_view record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = ::write(file_.get(), record.data() + done, record.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      const int why = errno;
      if (done > 0 && ::ftruncate(file_.get(), size_) != 0) size_ += static_cast<std::int64_t>(done);
      refuse(describe_error(why));
    }
  }
  size_ += static_cast<std::int64_t>(done);
}

}  // namespace lockstep::metrics
