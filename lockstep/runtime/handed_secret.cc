// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/handed_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/identity/host_port.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 32;

/// A file that has been there for longer is left over from another job.
constexpr std::time_t kOldSeconds = 600;

/// "" if it is a folder of this user's own.
std::string what_is_wrong_with(const fs::path& folder) {
  struct stat found {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  if (lstat(folder.c_str(), &found) != 0) return std::strerror(errno);
  if (!S_ISDIR(found.st_mode)) return "it is not a folder";
  if (found.st_uid != geteuid()) return fmt::format("it belongs to the user {}", found.st_uid);
  return (found.st_mode & 077) != 0 ? "others can enter it" : "";
}

}  // namespace

bool hands_secret(const cluster::Place& place, bool address_given) {
  return place.num_processes > 1 && place.job_secret.empty() && !place.job_id.empty() && !address_given &&
         (place.cluster == "ompi" || place.cluster == "pmi") && !place.coordinator_address.empty() &&
         coordination::is_loopback(coordination::parse_address(place.coordinator_address));
}

fs::path secret_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat found {};
  const bool usable = runtime != nullptr && runtime[0] == '/' && stat(runtime, &found) == 0 &&
                      S_ISDIR(found.st_mode) && found.st_uid == geteuid();
  return usable ? fs::path(runtime) / "lockstep" : fs::path(fmt::format("/tmp/lockstep-{}", geteuid()));
}

HandedSecret::HandedSecret(const cluster::Place& place, const fs::path& folder,
                           std::chrono::milliseconds timeout) {
  if (const std::string wrong = what_is_wrong_with(folder); !wrong.empty()) {
    if (place.process_id == 0)
      logging::warning("the job gets no secret, because {} cannot be used ({})", folder.native(), wrong);
    return;
  }
  file_ = folder / ("secret-" +
                    digest(fmt::format("{} {} {}", place.job_id, place.attempt, place.coordinator_address)));
  if (place.process_id == 0) {
    make();
    return;
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!read()) {
    if (std::chrono::steady_clock::now() >= end) {
      fail<InitializationError>(
          "[initialize] process {} of {} has waited for {} s for process 0 to write the job's secret to {}; "
          "see whether process 0 runs, and sees the same folder; or set LOCKSTEP_JOB_SECRET on all processes",
          place.process_id, place.num_processes, timeout.count() / 1000, file_.native());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

HandedSecret::~HandedSecret() {
  if (made_) unlink(file_.c_str());
}

HandedSecret::HandedSecret(HandedSecret&& other) noexcept { *this = std::move(other); }

HandedSecret& HandedSecret::operator=(HandedSecret&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(secret_, other.secret_);
  std::swap(made_, other.made_);
  return *this;
}

void HandedSecret::make() {
  std::string secret = random_hex(16);
  const fs::path unfinished = fmt::format("{}-{}", file_.native(), getpid());
  unlink(unfinished.c_str());
  const int descriptor = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool written = descriptor >= 0 && write(descriptor, secret.data(), kBytes) == ssize_t{kBytes};
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written || rename(unfinished.c_str(), file_.c_str()) != 0) {
    unlink(unfinished.c_str());
    fail<InitializationError>(
        "[initialize] process 0 cannot write the job's secret to {}: {}; make room there, or set "
        "LOCKSTEP_JOB_SECRET on all processes",
        file_.native(), std::strerror(written ? errno : error));
  }
  made_ = true;
  secret_ = std::move(secret);
}

bool HandedSecret::read() {
  const int descriptor = open(file_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat found {};
  char bytes[kBytes];
  const bool whole = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
                     std::time(nullptr) - found.st_mtime < kOldSeconds &&
                     ::read(descriptor, bytes, kBytes) == ssize_t{kBytes};
  close(descriptor);
  if (whole) secret_.assign(bytes, kBytes);
  return whole;
}

}  // namespace lockstep::runtime
