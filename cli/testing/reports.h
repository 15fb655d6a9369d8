// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/status/status_board.h"
#include "lockstep/watch/report.h"

// Made-up reports, and a board with them, for the tests of status.

namespace lockstep::cli {

/// A process that has run for 100 s, and waits for process 1 in a psum.
inline watch::ProcessReport waiting_report(int process) {
  watch::ProcessReport report;
  report.process = process;
  report.pid = 1000 + process;
  report.came = report.joined = true;
  report.age_seconds = 100;
  report.launches = 1200;
  report.collectives = 2400;
  report.wait_seconds = 38;
  report.transfer_seconds = 6;
  report.launch_seconds = 80;
  report.input_seconds = 1;
  report.memory_bytes = std::uint64_t{300} << 20;
  report.device_memory = {{std::uint64_t{2} << 30, std::uint64_t{8} << 30},
                          {std::uint64_t{6} << 30, std::uint64_t{8} << 30}};
  report.step = 1200;
  report.metrics = R"({"loss": 0.25, "lr": 0.001})";
  report.evidence = {.state = 'S', .call = "futex"};
  watch::ThreadReport thread;
  thread.tid = report.pid;
  thread.launches = report.launches;
  thread.doing.push_back(
      {.kind = watch::Kind::kLaunch, .what = "step", .site = "train.cc:40", .seconds = 2.5});
  thread.doing.push_back(
      {.kind = watch::Kind::kCollective, .what = "psum f32[4]", .seconds = 2, .operation = 7});
  thread.missing = {1};
  thread.missing_count = 1;
  report.threads.push_back(thread);
  return report;
}

/// The process for which the others wait: it is in its own code.
inline watch::ProcessReport own_code_report(int process) {
  watch::ProcessReport report = waiting_report(process);
  report.wait_seconds = 1;
  report.evidence = {.state = 'R', .cpu_share = 0.98};
  watch::ThreadReport& thread = report.threads.front();
  thread.doing.clear();
  thread.missing.clear();
  thread.missing_count = 0;
  thread.last = {watch::Kind::kLaunch, "step", "train.cc:40", 2.1};
  return report;
}

/// A job with this number of processes on `hosts` hosts, in which process 1 is in its own code and the others
/// wait for it.
inline StatusBoard made_up_board(int processes, int hosts = 1,
                                 const std::string& job_id = "00000000deadbeef") {
  StatusBoard board(job_id, {"./train", "--lr", "0.001"}, processes);
  board.set_state("running");
  std::vector<watch::ProcessReport> reports;
  for (int i = 0; i < processes; ++i) {
    watch::ProcessReport report = i == 1 ? own_code_report(i) : waiting_report(i);
    if (hosts > 1) report.host = "node" + std::to_string(i * hosts / processes);
    // Different values, as in a real job.
    report.wait_seconds += 0.37 * (i * 7 % 11);
    report.transfer_seconds += 0.11 * (i * 5 % 13);
    board.take(report);
    reports.push_back(std::move(report));
  }
  board.set_stalls(watch::diagnose(reports));
  return board;
}

}  // namespace lockstep::cli
