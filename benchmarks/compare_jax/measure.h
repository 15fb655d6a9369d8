// SPDX-License-Identifier: Apache-2.0
#pragma once

// Code shared by the Lockstep sides of the comparison: their options, and printing measurements. README.md
// has the contract.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

/// The value after `name` in the arguments; ends the program with a message where it is missing.
inline std::string option(int argc, char** argv, std::string_view name) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == name) return argv[i + 1];
  std::fprintf(stderr, "%s: the option %.*s is missing\n", argv[0], static_cast<int>(name.size()),
               name.data());
  std::exit(2);
}

struct Size {
  std::int64_t bytes;
  int calls;
};

/// "4:2000,4096:1000" as {{4, 2000}, {4096, 1000}}.
inline std::vector<Size> parse_sizes(const std::string& text) {
  std::vector<Size> sizes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    sizes.push_back({std::stoll(item), std::stoi(item.substr(item.find(':') + 1))});
    at = end + 1;
  }
  return sizes;
}

/// Seconds, of a clock that only goes forward.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Prints {"measure": ..., "median_us": ..., "min_us": ..., "count": ...} and `more`, such as `, "bytes": 4`.
inline void report_times(const char* measure, std::vector<double> seconds, const std::string& more = "") {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  std::printf("{\"measure\": \"%s\", \"median_us\": %.4f, \"min_us\": %.4f, \"count\": %zu%s}\n", measure,
              median * 1e6, seconds[0] * 1e6, n, more.c_str());
  std::fflush(stdout);
}

/// In every process, as soon as the first step's loss is there.
inline void report_first_step(int process) {
  const double unix_time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::printf("{\"measure\": \"first_step\", \"process\": %d, \"unix_time\": %.6f}\n", process, unix_time);
  std::fflush(stdout);
}

/// In every process, at its end.
inline void report_memory(int process) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"measure\": \"memory\", \"process\": %d, \"peak_bytes\": %lld}\n", process,
              static_cast<long long>(usage.ru_maxrss) * 1024);
  std::fflush(stdout);
}

}  // namespace compare
