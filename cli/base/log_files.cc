// SPDX-License-Identifier: Apache-2.0
#include "cli/base/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "cli/base/descriptors.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/own_file.h"

namespace lockstep::cli {
namespace {

/// How many logs stay open: fewer where a job of many processes needs all descriptors there are, so that
/// these are within kOwnDescriptors.
std::size_t most_open() {
  return static_cast<std::size_t>(
      std::clamp(most_descriptors() / 32, kOwnDescriptors / 4, 2 * kOwnDescriptors));
}

/// "process-3.attempt-1.log.2"
struct LogName {
  int process = 0, attempt = 0;
  int number = 0;  ///< 0: none, it is not of an earlier run yet
};

std::optional<LogName> parse_log_name(std::string_view name) {
  const auto take = [&](std::string_view begin, int& number) {
    if (!name.starts_with(begin)) return false;
    const char* const first = name.data() + begin.size();
    const auto [end, error] = std::from_chars(first, name.data() + name.size(), number);
    if (error != std::errc()) return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return true;
  };
  LogName log;
  if (!take("process-", log.process)) return std::nullopt;
  take(".attempt-", log.attempt);
  if (!name.starts_with(".log")) return std::nullopt;
  name.remove_prefix(4);
  if (!name.empty() && !(take(".", log.number) && name.empty())) return std::nullopt;
  return log;
}

// `whose`: those of an earlier run, where they have no number.
void keep_earlier(const std::filesystem::path& folder, const std::function<bool(const LogName&)>& whose) {
  int highest = 0;
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::optional<LogName> log = parse_log_name(entry.path().filename().string());
    if (!log || !whose(*log)) continue;
    highest = std::max(highest, log->number);
    // Not what a user has put in the place of a log, such as a link.
    if (log->number == 0 && entry.symlink_status().type() == std::filesystem::file_type::regular)
      earlier.push_back(entry.path());
  }
  for (const auto& file : earlier) {
    std::error_code error;
    std::filesystem::rename(file, file.string() + "." + std::to_string(highest + 1), error);
    // Another user's, in a folder of all: where a log needs this name, that is said.
    if (error && error != std::errc::operation_not_permitted)
      throw std::filesystem::filesystem_error("renaming a log", file, error);
  }
}

// A log may be a FIFO. The launcher never waits for its reader: if there is none, or it is slow, that is an
// error.
OwnFile open_log(const std::filesystem::path& file) { return open_own_file(file, O_APPEND | O_NONBLOCK); }

}  // namespace

LogFiles::LogFiles(const std::filesystem::path& folder, const std::vector<int>& processes, int attempt,
                   Earlier earlier) {
  const std::set<int> own(processes.begin(), processes.end());
  if (const std::string why = make_own_folders(folder); !why.empty())
    fail("cannot write logs in {}: {}", folder.string(), why);
  try {
    // A restart may be the first start of a process here.
    keep_earlier(folder, [&](const LogName& log) {
      if (earlier == Earlier::kAll) return attempt == 0;
      return own.contains(log.process) && (attempt == 0 || log.attempt == attempt);
    });
  } catch (const std::filesystem::filesystem_error& error) {
    fail("cannot write logs in {}: {}", folder.string(), error.code().message());
  }
  const std::string suffix = attempt == 0 ? "" : fmt::format(".attempt-{}", attempt);
  for (const int i : processes) {
    File& file = files_[i];
    file.path = folder / fmt::format("process-{}{}.log", i, suffix);
    OwnFile log = open_log(file.path);
    if (!log.file) fail("cannot write {}: {}", file.path.string(), log.why_not);
    struct stat status {};
    if (fstat(log.file.get(), &status) == 0 && S_ISFIFO(status.st_mode) && open_.size() < most_open()) {
      file.descriptor = log.file.release();  // closing it would end what its reader gets
      open_.push_back(i);
    }
  }
}

LogFiles::~LogFiles() {
  for (const int process : open_) close(files_[process].descriptor);
}

int LogFiles::opened(int process, std::string* why_not) {
  File& file = files_[process];
  if (file.descriptor >= 0) return file.descriptor;
  if (open_.size() >= most_open()) {
    close(std::exchange(files_[open_.front()].descriptor, -1));
    open_.pop_front();
  }
  OwnFile log = open_log(file.path);
  *why_not = std::move(log.why_not);
  file.descriptor = log.file.release();
  if (file.descriptor >= 0) open_.push_back(process);
  return file.descriptor;
}

std::optional<std::string> LogFiles::write(int process, std::string_view bytes) {
  std::string why_not;
  const int descriptor = opened(process, &why_not);
  while (!bytes.empty() && why_not.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written > 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      why_not = errno == EAGAIN ? "its reader is too slow" : describe_error(errno);
  }
  if (why_not.empty() || std::exchange(failed_, true)) return std::nullopt;
  return fmt::format("cannot write {}: {}; from here on logs lack what could not be written",
                     files_[process].path.string(), why_not);
}

}  // namespace lockstep::cli
