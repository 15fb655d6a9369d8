// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/process_logs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/base/read_file.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kShownBytes = 64 * 1024;

struct Kept {
  std::shared_ptr<TemporaryFolder> folder;
  std::string title;
};

std::mutex mutex;

std::vector<Kept>& kept() {
  static std::vector<Kept> instance;
  return instance;
}

void print(const Kept& group) {
  for (int i = 0; std::filesystem::exists(log_file(group.folder->path(), i)); ++i) {
    std::string log = read_file(log_file(group.folder->path(), i));
    if (log.size() > kShownBytes) log = "[...]" + log.substr(log.size() - kShownBytes);
    if (!log.empty() && log.back() != '\n') log += '\n';
    std::fputs(
        fmt::format("---- process {} of {}{}\n{}", i, group.title, log.empty() ? " printed nothing" : "", log)
            .c_str(),
        stdout);
  }
  std::fflush(stdout);
}

class Listener : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& info) override {
    std::vector<Kept> groups;
    {
      std::lock_guard lock(mutex);
      groups.swap(kept());
    }
    if (!info.result()->Failed()) return;
    for (const Kept& group : groups) print(group);
  }
};

}  // namespace

void keep_until_test_ends(std::shared_ptr<TemporaryFolder> folder, std::string title) {
  std::lock_guard lock(mutex);
  kept().push_back({std::move(folder), std::move(title)});
}

void print_process_logs_of_failed_tests() {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
}

std::filesystem::path log_file(const std::filesystem::path& group_folder, int index) {
  return group_folder / fmt::format("process-{}.log", index);
}

std::filesystem::path process_folder(const std::filesystem::path& group_folder, int index) {
  return group_folder / fmt::format("process-{}", index);
}

std::string read_file(const std::filesystem::path& file) {
  return lockstep::read_file(file.string()).bytes;  // of /proc, nothing if the process has just ended
}

}  // namespace lockstep::testing
