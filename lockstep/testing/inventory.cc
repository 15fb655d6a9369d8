// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/inventory.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "lockstep/testing/process_logs.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

int entries(const char* folder) {
  std::error_code error;
  fs::directory_iterator all(folder, error);
  return error ? 0 : static_cast<int>(std::distance(begin(all), end(all)));
}

void add_children(std::map<std::string, int>& things) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    // "4711 (train) S 12 ...": the name may hold anything.
    const std::string stat = read_file(entry.path() / "stat");
    const auto end = stat.rfind(") ");
    if (end == stat.npos) continue;
    char state = 0;
    int parent = 0;
    std::istringstream(stat.substr(end + 2)) >> state >> parent;
    if (parent == getpid()) {
      ++things[fmt::format("{} {} {}", state == 'Z' ? "zombie" : "process", name, stat.substr(0, end + 1))];
    }
  }
}

/// Listening sockets of TCP: state 0A in the fourth column.
void add_tcp(std::map<std::string, int>& things, const char* table) {
  std::ifstream in(table);
  std::string line, number, local, remote, state;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream(line) >> number >> local >> remote >> state;
    if (state != "0A") continue;
    const std::string hex = local.substr(local.rfind(':') + 1);
    int port = 0;
    std::from_chars(hex.data(), hex.data() + hex.size(), port, 16);
    ++things[fmt::format("listening on tcp port {}", port)];
  }
}

/// Unix sockets with a name.
void add_unix(std::map<std::string, int>& things) {
  std::ifstream in("/proc/net/unix");
  std::string line, word;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    for (int i = 0; i < 7; ++i) words >> word;
    if (words >> word) ++things["unix socket " + word];
  }
}

void add_files(std::map<std::string, int>& things, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) ++things["file " + entry.path().string()];
}

}  // namespace

Inventory Inventory::now() {
  Inventory inventory;
  add_children(inventory.things);
  add_tcp(inventory.things, "/proc/net/tcp");
  add_tcp(inventory.things, "/proc/net/tcp6");
  add_unix(inventory.things);
  add_files(inventory.things, "/dev/shm");
  add_files(inventory.things, fs::temp_directory_path());
  inventory.descriptors = entries("/proc/self/fd") - 1;  // Less the one that counts.
  inventory.threads = entries("/proc/self/task");
  return inventory;
}

std::string left_over(const Inventory& before, const Inventory& after) {
  std::string text;
  for (const auto& [thing, count] : after.things) {
    const auto it = before.things.find(thing);
    const int more = count - (it == before.things.end() ? 0 : it->second);
    if (more > 0) text += fmt::format("{}{}\n", thing, more > 1 ? fmt::format(" ({} times)", more) : "");
  }
  return text;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

}  // namespace lockstep::testing
