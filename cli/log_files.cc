#include "cli/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostOpen = 128;  // of jobs with many processes, which need their descriptors

// The number behind "process-....log."; 0 where there is none, nullopt for what is no log.
std::optional<int> number_behind(const std::string& name) {
  const std::size_t end = name.find(".log");
  if (!name.starts_with("process-") || end == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(name).substr(end + 4);
  if (rest.empty()) return 0;
  int number = 0;
  const auto [last, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
  const bool whole = rest[0] == '.' && error == std::errc() && last == rest.data() + rest.size();
  return whole ? std::optional(number) : std::nullopt;
}

void keep_those_of_an_earlier_run(const std::filesystem::path& folder) {
  int highest = 0;
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::optional<int> number = number_behind(entry.path().filename());
    if (!number) continue;
    highest = std::max(highest, *number);
    // Not what a user has put in the place of a log, such as a link.
    if (*number == 0 && entry.symlink_status().type() == std::filesystem::file_type::regular)
      earlier.push_back(entry.path());
  }
  for (const auto& file : earlier)
    std::filesystem::rename(file, file.string() + "." + std::to_string(highest + 1));
}

int open_log(const std::filesystem::path& file) {
  return open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

}  // namespace

LogFiles::LogFiles(const std::filesystem::path& folder, int num_processes, int attempt) {
  try {
    std::filesystem::create_directories(folder);
    if (attempt == 0) keep_those_of_an_earlier_run(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    fail("cannot write logs in {}: {}", folder.string(), error.code().message());
  }
  const std::string suffix = attempt == 0 ? "" : fmt::format(".attempt-{}", attempt);
  for (int i = 0; i < num_processes; ++i) {
    files_.push_back({.path = folder / fmt::format("process-{}{}.log", i, suffix)});
    const int descriptor = open_log(files_.back().path);
    if (descriptor < 0) fail("cannot write {}: {}", files_.back().path.string(), std::strerror(errno));
    close(descriptor);
  }
}

LogFiles::~LogFiles() {
  for (const int process : open_) close(files_[process].descriptor);
}

int LogFiles::opened(int process) {
  File& file = files_[process];
  if (file.descriptor >= 0) return file.descriptor;
  if (open_.size() == kMostOpen) {
    close(std::exchange(files_[open_.front()].descriptor, -1));
    open_.pop_front();
  }
  file.descriptor = open_log(file.path);
  if (file.descriptor >= 0) open_.push_back(process);
  return file.descriptor;
}

std::optional<std::string> LogFiles::write(int process, std::string_view bytes) {
  const int descriptor = opened(process);
  while (!bytes.empty()) {
    const ssize_t written = descriptor < 0 ? -1 : ::write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      if (std::exchange(failed_, true)) return std::nullopt;
      return fmt::format("cannot write {}: {}; from here on logs lack what could not be written",
                         files_[process].path.string(), std::strerror(errno));
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::cli
