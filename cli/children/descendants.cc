// SPDX-License-Identifier: Apache-2.0
#include "cli/children/descendants.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

namespace lockstep::cli {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kUntilKilled(10);  // one that is stuck in the kernel stays

// The first bytes of a file of the kernel's; empty where it is gone.
std::string read_start(const std::string& file) {
  std::string text(1024, '\0');
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = descriptor < 0 ? 0 : read(descriptor, text.data(), text.size());
  if (descriptor >= 0) close(descriptor);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

// The processes whose parent is this one, each with the moment of its start.
std::map<pid_t, std::string> children() {
  constexpr int kStartTime = 22 - 4;  // of the words of /proc/PID/stat, counted from the parent's
  std::map<pid_t, std::string> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry("/proc", ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    pid_t pid = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || rest != name.data() + name.size()) continue;
    const std::string stat = read_start("/proc/" + name + "/stat");
    const std::size_t name_end = stat.rfind(") ");  // the program's name may hold anything
    if (name_end == std::string::npos) continue;
    std::istringstream words(stat.substr(name_end + 2));
    std::string state, word;
    pid_t parent = 0;
    if (!(words >> state >> parent) || parent != getpid()) continue;
    for (int i = 0; i < kStartTime; ++i) words >> word;
    found[pid] = word;
  }
  return found;
}

}  // namespace

Descendants::Descendants() : spared_(children()) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void Descendants::kill_all() const {
  // The children of one killed become children of this process, so it goes on until there are none.
  const Steady::time_point deadline = Steady::now() + kUntilKilled;
  while (Steady::now() < deadline) {
    const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped < 0 && errno == ECHILD) return;
    if (reaped > 0) continue;
    auto found = children();
    std::erase_if(found, [&](const auto& child) {
      const auto spared = spared_.find(child.first);
      return spared != spared_.end() && spared->second == child.second;
    });
    if (found.empty()) return;
    for (const auto& [pid, start] : found) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace lockstep::cli
