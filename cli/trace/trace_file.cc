// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ostream>
#include <streambuf>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/own_file.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kPatience(10);  // with a reader who takes nothing

/// Writes to a descriptor that does not block.
class Buffer : public std::streambuf {
 public:
  explicit Buffer(int descriptor) : descriptor_(descriptor), bytes_(1 << 16) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }

  int error() const { return error_; }

 protected:
  int_type overflow(int_type next) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }

  int sync() override {
    for (const char* at = pbase(); at < pptr();) {
      const ssize_t written = ::write(descriptor_, at, static_cast<std::size_t>(pptr() - at));
      if (written > 0) {
        at += written;
      } else if (errno == EAGAIN) {
        pollfd polled{descriptor_, POLLOUT, 0};
        if (poll(&polled, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 0)
          return fail_with(ETIMEDOUT);
      } else if (errno != EINTR) {
        return fail_with(errno);
      }
    }
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return 0;
  }

 private:
  int fail_with(int error) {
    error_ = error;
    return -1;
  }

  const int descriptor_;
  std::vector<char> bytes_;
  int error_ = 0;
};

}  // namespace

int open_trace(const std::filesystem::path& path, int flags) {
  OwnFile opened = open_own_file(path, flags);
  if (!opened.file) fail("cannot write the trace {}: {}; give another file", path.string(), opened.why_not);
  return opened.file.release();
}

TraceFile::TraceFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_trace(path_, O_NONBLOCK)) {}

TraceFile::TraceFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

TraceFile::~TraceFile() { close(descriptor_); }

void TraceFile::write(const std::function<void(std::ostream&)>& put) {
  struct stat status {};
  const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && ftruncate(descriptor_, 0) != 0)
    fail("the trace {} could not be written: {}", path_.string(), describe_error(errno));
  Buffer buffer(descriptor_);
  std::ostream out(&buffer);
  put(out);
  out.flush();
  if (!out.fail()) return;
  fail("the trace {} could not be written: {}", path_.string(),
       buffer.error() == ETIMEDOUT ? fmt::format("its reader has read nothing for {} s", kPatience.count())
                                   : describe_error(buffer.error()));
}

}  // namespace lockstep::cli
