// SPDX-License-Identifier: Apache-2.0
#include "cli/base/job_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/passed_descriptor.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".sock";
constexpr std::chrono::seconds kForATurn(2);    // where many ask at once
constexpr char kUnfinished[] = "new-";          // until it listens
constexpr std::time_t kUnfinishedSeconds = 60;  // then whoever made it has gone

std::string error_text() { return std::strerror(errno); }

// Throws Error where the path is longer than the kernel takes.
sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() >= sizeof(address.sun_path))
    fail("the path of a socket is too long ({} of {} bytes): {}", text.size(), sizeof(address.sun_path) - 1,
         text);
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

int new_socket() {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail("cannot make a socket: {}", error_text());
  return descriptor;
}

// -1 where it cannot be done, with errno.
int connect_to(const fs::path& path) {
  const sockaddr_un address = address_of(path);
  const int descriptor = new_socket();
  // A launcher that is stopped takes nobody in, and its queue is short.
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  int error = 0;
  for (const auto until = std::chrono::steady_clock::now() + kForATurn;;) {
    if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      fcntl(descriptor, F_SETFL, 0);
      return descriptor;
    }
    error = errno;
    if (error != EAGAIN || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  close(descriptor);
  errno = error;
  return -1;
}

// Nullopt where it is not there.
std::optional<std::string> what_is_wrong_with(const fs::path& folder) {
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return fmt::format("cannot be checked: {}", error_text());
  }
  if (S_ISLNK(found.st_mode)) return "is a symbolic link";
  if (!S_ISDIR(found.st_mode)) return "is not a folder";
  if (found.st_uid != geteuid()) return fmt::format("belongs to user {}, not to {}", found.st_uid, geteuid());
  if ((found.st_mode & 077) != 0)
    return fmt::format("is open to others (mode {:o}; chmod 700 mends it)", found.st_mode & 07777);
  return "";
}

void remove_if_unfinished(const fs::path& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0 && std::time(nullptr) - found.st_mtime > kUnfinishedSeconds)
    unlink(path.c_str());
}

std::optional<fs::path> chosen_folder() {
  const char* const chosen = std::getenv("LOCKSTEP_SOCKET_DIR");
  if (chosen == nullptr || *chosen == '\0') return std::nullopt;
  return fs::absolute(chosen);
}

std::string name_in_tmp() { return fmt::format("lockstep-{}", geteuid()); }

/// Folders that launchers made because another user had made /tmp/lockstep-UID.
std::vector<fs::path> fallback_folders() {
  std::vector<fs::path> folders;
  const std::string begin = name_in_tmp() + "-";
  std::error_code error;
  for (fs::directory_iterator it("/tmp", error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().native().starts_with(begin) && what_is_wrong_with(it->path()) == "")
      folders.push_back(it->path());
  }
  std::ranges::sort(folders);
  return folders;
}

std::vector<RunningJob> jobs_in(const fs::path& folder) {
  std::vector<RunningJob> jobs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (path.filename().native().starts_with(kUnfinished)) {
      remove_if_unfinished(path);
      continue;
    }
    if (path.extension() != kEnding) continue;
    const int descriptor = connect_to(path);
    if (descriptor >= 0 || errno == EAGAIN) {
      if (descriptor >= 0) close(descriptor);
      jobs.push_back({path.stem().native(), path});
    } else if (errno == ECONNREFUSED) {
      unlink(path.c_str());  // its launcher was killed
    }
  }
  return jobs;
}

}  // namespace

std::vector<fs::path> socket_folders() {
  if (const auto chosen = chosen_folder()) return {*chosen};
  std::vector<fs::path> folders;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat found {};
  if (runtime != nullptr && runtime[0] == '/' && stat(runtime, &found) == 0 && S_ISDIR(found.st_mode) &&
      found.st_uid == geteuid())
    folders.push_back(fs::path(runtime) / "lockstep");
  folders.push_back("/tmp/" + name_in_tmp());
  std::ranges::move(fallback_folders(), std::back_inserter(folders));
  return folders;
}

fs::path make_socket_folder() {
  if (const auto chosen = chosen_folder()) {
    make_socket_folder(*chosen);
    return *chosen;
  }
  for (const fs::path& folder : socket_folders()) {
    try {
      make_socket_folder(folder);
      return folder;
    } catch (const Error&) {
      continue;
    }
  }
  std::string name = "/tmp/" + name_in_tmp() + "-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail("cannot make a folder like {}: {}", name, error_text());
  return name;
}

void make_socket_folder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail("cannot make the folder {}: {}", folder.native(), error_text());
  // Its parent is this user's or sticky: what is right now stays so.
  const auto wrong = what_is_wrong_with(folder);
  if (!wrong) fail("the folder {} was removed while it was being made; start the job again", folder.native());
  if (!wrong->empty()) fail("the folder {} {}", folder.native(), *wrong);
}

JobSocket::JobSocket(const std::string& job_id) {
  const fs::path folder = make_socket_folder();
  const fs::path unfinished = folder / fmt::format("{}{}-{}", kUnfinished, job_id, getpid());
  path_ = folder / (job_id + kEnding);
  const sockaddr_un address = address_of(unfinished);
  (void)address_of(path_);
  unlink(unfinished.c_str());
  descriptor_ = new_socket();
  const auto give_up = [&](const char* what) {
    const std::string why = error_text();
    close(descriptor_);
    unlink(unfinished.c_str());
    fail("cannot {} the socket {}: {}", what, path_.native(), why);
  };
  if (bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) give_up("make");
  if (chmod(unfinished.c_str(), 0600) != 0) give_up("protect");
  if (listen(descriptor_, 16) != 0) give_up("listen on");
  // Only now: one that refuses connections is taken for a dead launcher's.
  if (rename(unfinished.c_str(), path_.c_str()) != 0) give_up("name");
}

JobSocket::~JobSocket() {
  unlink(path_.c_str());
  close(descriptor_);
}

std::vector<RunningJob> running_jobs() {
  std::vector<RunningJob> jobs;
  for (const fs::path& folder : socket_folders()) {
    const auto wrong = what_is_wrong_with(folder);
    if (!wrong) continue;
    if (!wrong->empty()) {
      if (chosen_folder()) fail("the folder {} of the jobs' sockets {}", folder.native(), *wrong);
      continue;  // no launcher uses it
    }
    std::vector<RunningJob> some = jobs_in(folder);
    jobs.insert(jobs.end(), some.begin(), some.end());
  }
  std::ranges::sort(jobs, {}, &RunningJob::id);
  return jobs;
}

RunningJob find_job(const std::string& id) {
  const std::vector<RunningJob> all = running_jobs();
  std::vector<RunningJob> fitting;
  std::string names;
  for (const RunningJob& job : all) {
    if (job.id.starts_with(id)) fitting.push_back(job);
    names += (names.empty() ? "" : ", ") + job.id;
  }
  if (fitting.size() == 1) return fitting.front();
  if (all.empty()) {
    std::string places;
    for (const fs::path& folder : socket_folders()) {
      const auto wrong = what_is_wrong_with(folder);
      places += fmt::format("{}{}{}", places.empty() ? "" : ", ", folder.native(),
                            wrong && !wrong->empty() ? ", which is not used because it " + *wrong : "");
    }
    fail("no job of this user runs on this host (looked for the sockets of launchers in {})", places);
  }
  if (fitting.empty())
    fail("no job whose id begins with '{}' runs on this host; those that run: {}", id, names);
  if (id.empty()) fail("several jobs run on this host; name one of them: {}", names);
  fail("several jobs have ids that begin with '{}'; those that run: {}", id, names);
}

JobConnection::JobConnection(const RunningJob& job) : job_(job.id), descriptor_(connect_to(job.socket)) {
  if (descriptor_ >= 0) return;
  if (errno == EAGAIN)
    fail("the launcher of job {} accepts no connection: it is stopped, or too many tools ask it at once",
         job.id);
  fail("job {} has ended ({}: {})", job.id, job.socket.native(), error_text());
}

JobConnection::~JobConnection() { close(descriptor_); }

void JobConnection::send(std::string_view line, int descriptor) {
  while (!line.empty()) {
    iovec part{const_cast<char*>(line.data()), line.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    PassedDescriptor passed;
    passed.send_with(message, descriptor);
    const ssize_t sent = sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail("job {} has ended while it was asked: {}", job_, error_text());
    descriptor = -1;
    line.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::optional<std::string> JobConnection::line(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const std::size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = buffer_.size();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd polled{descriptor_, POLLIN, 0};
    const int ready = left > 0 ? poll(&polled, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      fail("the launcher of job {} has not answered for {} s; it may be stopped", job_,
           timeout.count() / 1000);
    char bytes[256 * 1024];
    const ssize_t got = read(descriptor_, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep::cli
