// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/limits.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

// "ulimit -v: 2000000 KiB"; nothing where there is no limit.
std::optional<std::string> limit(decltype(RLIMIT_NOFILE) resource, char option, rlim_t unit = 1) {
  rlimit found{RLIM_INFINITY, RLIM_INFINITY};
  if (getrlimit(resource, &found) != 0 || found.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return fmt::format("ulimit -{}: {}{}", option, found.rlim_cur / unit, unit == 1024 ? " KiB" : "");
}

std::optional<std::string> reached_by(int error) {
  switch (error) {
    case EMFILE:
      return limit(RLIMIT_NOFILE, 'n');
    case EFBIG:
      return limit(RLIMIT_FSIZE, 'f', 1024);
    case ENOMEM:
      return limit(RLIMIT_AS, 'v', 1024);
    case EAGAIN: {
      const auto processes = limit(RLIMIT_NPROC, 'u');
      const auto memory = limit(RLIMIT_AS, 'v', 1024);
      if (!memory) return processes;
      return processes ? *processes + ", " + *memory : *memory;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string limit_behind(int error) {
  const auto limit = reached_by(error);
  return limit ? fmt::format(" ({})", *limit) : "";
}

std::string describe_error(int error) { return std::strerror(error) + limit_behind(error); }

void require_threads(int count, const std::string& what) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::thread> threads;
  int error = 0;
  try {
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over; });
      });
    }
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  }
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  const std::size_t started = threads.size();
  for (std::thread& thread : threads) thread.join();
  if (error == 0) return;
  fail(
      "{} needs {} threads, and only {} can be started: {}; raise the limit of processes and threads of this "
      "user, or of the control group",
      what, count, started, describe_error(error));
}

void require_address_space(std::size_t megabytes, const std::string& what) {
  const std::size_t bytes = megabytes << 20;
  void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    fail("{} needs {} MiB of address space, and less is left: {}; raise the limit", what, megabytes,
         describe_error(errno));
  munmap(room, bytes);
}

}  // namespace lockstep
