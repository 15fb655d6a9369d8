// SPDX-License-Identifier: Apache-2.0
// What it costs on GPUs and TPUs that processes agree about what they launch: the first launch of a program
// over a mesh, which waits for the other processes, and each later one. Simulated: the processes are threads,
// each with a client of its own; they call a coordinator in this process over gRPC on the loopback.
//
//   $ build/release/benchmarks/launch_agreement            # 2, 8 and 32 processes

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/runtime/launch_agreement.h"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

constexpr int kPrograms = 100, kLaunches = 1'000'000;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The time that this thread has computed.
double computed_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void measure(int count) {
  coordination::CoordinationServer server;
  server.start({.num_processes = count});
  std::vector<double> first, later(static_cast<std::size_t>(count));
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::thread> processes;
  for (const int process : all) {
    processes.emplace_back([&, process] {
      const auto client = coordination::make_grpc_client(
          {.address = server.address(), .process_id = process, .num_processes = count});
      client->connect();
      {
        runtime::LaunchAgreement agreement(*client, [](const std::vector<int>&, const std::string&) {});
        runtime::LaunchAgreement::Group& group = agreement.group(all, all);
        for (int program = 0; program < kPrograms; ++program) {
          const Clock::time_point begin = Clock::now();
          agreement.before_launch(group, 1, static_cast<Fingerprint>(program), "step(f32[8])");
          if (process == 0) first.push_back(seconds_since(begin));
        }
        const double begin = computed_seconds();
        for (int launch = 0; launch < kLaunches; ++launch)
          agreement.before_launch(group, 1, static_cast<Fingerprint>(launch % kPrograms), "step(f32[8])");
        later[static_cast<std::size_t>(process)] = (computed_seconds() - begin) / kLaunches;
        agreement.finish(std::chrono::minutes(1));
      }
      client->shutdown();
    });
  }
  for (std::thread& process : processes) process.join();
  std::ranges::sort(first);
  fmt::print("{:>9}  {:>12.3f} ms  {:>12.0f} ns\n", count, first[first.size() / 2] * 1e3,
             *std::ranges::min_element(later) * 1e9);
}

}  // namespace

int main() {
  fmt::print("{:>9}  {:>15}  {:>15}\n", "processes", "first, median", "each later one");
  for (const int count : {2, 8, 32}) measure(count);
}
