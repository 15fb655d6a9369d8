// SPDX-License-Identifier: Apache-2.0
#include "cli/testing/tool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/testing/process_logs.h"

namespace lockstep::cli {

using testing::ProcessesOptions;
using testing::ProcessResult;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

ProcessesOptions tool(Words arguments, testing::Variables env) {
  return {.program = LOCKSTEP_TOOL, .arguments = std::move(arguments), .env = std::move(env)};
}

ProcessResult lockstep(Words arguments, testing::Variables env) {
  return testing::run_processes(tool(std::move(arguments), std::move(env)))[0];
}

Words shell(const std::string& script) { return {"--", "/bin/sh", "-c", script}; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool alive(pid_t pid) {
  const std::string stat = testing::read_file("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

void expect_gone(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (alive(pid) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(alive(pid));
}

pid_t number_after(const std::string& log, const std::string& text) {
  const std::size_t at = log.find(text);
  return at == std::string::npos ? -1 : std::atoi(log.c_str() + at + text.size());
}

std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    const std::string environment = '\0' + testing::read_file(entry.path() / "environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::string write_script(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file) << content;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

std::string lacking_for_slurm() {
  if (geteuid() != 0) return "needs root, for a Slurm of its own";
  if (std::system("PATH=$PATH:/usr/sbin; command -v slurmctld slurmd srun salloc munged > /dev/null") != 0)
    return "needs slurmctld, slurmd, slurm-client and munge";
  return "";
}

std::unique_ptr<coordination::CoordinationClient> join() {
  coordination::ClientOptions options;
  options.address =
      coordination::reached_at(std::getenv("LOCKSTEP_COORDINATOR_ADDRESS"), Environment::process());
  options.process_id = std::atoi(std::getenv("LOCKSTEP_PROCESS_ID"));
  options.num_processes = std::atoi(std::getenv("LOCKSTEP_NUM_PROCESSES"));
  options.identity = {.job_id = std::getenv("LOCKSTEP_JOB_ID"),
                      .attempt = std::atoi(std::getenv("LOCKSTEP_ATTEMPT")),
                      .secret = std::getenv("LOCKSTEP_JOB_SECRET")};
  options.tls = coordination::TlsFiles::from(Environment::process());
  if (const char* heartbeat = std::getenv("LOCKSTEP_HEARTBEAT_TIMEOUT")) {
    options.heartbeat_timeout = std::chrono::seconds(std::atoi(heartbeat));
  }
  auto client = coordination::make_grpc_client(options);
  client->connect();
  return client;
}

[[noreturn]] void wait_in_vain(coordination::CoordinationClient& client) {
  try {
    client.barrier("never", std::chrono::minutes(10));
  } catch (const PeerFailure& error) {
    testing::say(std::string("heard: ") + error.what());
    std::_Exit(3);
  }
  std::_Exit(4);
}

}  // namespace lockstep::cli
