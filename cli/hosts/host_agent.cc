// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/host_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/base/log_files.h"
#include "cli/base/words.h"
#include "cli/hosts/agent_loop.h"
#include "cli/hosts/agent_protocol.h"
#include "cli/hosts/local_host.h"
#include "cli/stacks/json.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/coordination/proxy/host_proxy.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostPendingTrace = 4 * ParentPipe::kMostPending;

/// From this many processes in a job on, the agent is the coordinator's proxy on its host.
constexpr int kProcessesOfALargeJob = 512;

/// The coordinator's proxy for this host's processes; null in a small job. LOCKSTEP_HOST_PROXY=1 asks for it,
/// 0 forbids it. With certificates there is none: processes check the coordinator's name.
std::unique_ptr<coordination::HostProxy> proxy_for(const HostJob& job) {
  const auto value = [&](const std::string& name) {
    const auto& given = job.processes.front().variables;
    const auto it = given.find(name);
    return it != given.end() ? it->second : Environment::process().get(name).value_or("");
  };
  const auto count = static_cast<int>(job.processes.size());
  const std::string asked = value("LOCKSTEP_HOST_PROXY"), coordinator = value("LOCKSTEP_COORDINATOR_ADDRESS");
  const bool large = count > 1 && std::atoi(value("LOCKSTEP_NUM_PROCESSES").c_str()) >= kProcessesOfALargeJob;
  if (coordinator.empty() || asked == "0" || (asked != "1" && !large) ||
      !value("LOCKSTEP_TLS_CERTIFICATE").empty()) {
    return nullptr;
  }
  try {
    return std::make_unique<coordination::HostProxy>(coordination::HostProxyOptions{
        .coordinator = coordinator,
        .num_processes = count,
        .identity = {value("LOCKSTEP_JOB_ID"), std::atoi(value("LOCKSTEP_ATTEMPT").c_str()),
                     value("LOCKSTEP_JOB_SECRET")},
        .tls = {},
        .limits = {}});
  } catch (const Error& error) {
    say("lockstep host-agent",
        fmt::format("the processes of this host call the coordinator directly: {}", error.what()));
    return nullptr;
  }
}

class Agent : public AgentLoop, HostListener {
  std::chrono::milliseconds silence() const override { return job_.job().silence; }
  bool has_begun() const override { return job_.complete(); }
  bool open() const override { return host_.open(); }
  void pass_on(int signal) override {
    for (const auto& process : job_.job().processes) host_.signal(process.number, signal, false);
  }
  void add_polled(std::vector<pollfd>& polled) override {
    // Output that stays on this host need not wait for the launcher.
    const bool sends = unsent_.size() < job_.job().processes.size();
    host_.hold_output(sends && (held_ || parent_.full()));
    host_.add_polled(polled);
  }
  std::optional<Steady::time_point> next_work() const override { return host_.next_work(); }
  void work(std::span<const pollfd> polled) override { host_.work(polled); }

  void handle(const std::string& line) override {
    const std::optional<Message> message = from_line(line);
    if (!message || job_.complete() || !job_.take(*message)) {
      if (!message) return;
      if (message->front() == "pause") parent_.pause();
      if (message->front() == "logs") host_.ask_for_logs();
      if (message->front() == "stacks" && message->size() == 2)
        host_.take_stacks(std::chrono::milliseconds(number_of((*message)[1])));
      if (message->front() == "trace" && message->size() == 2) trace((*message)[1] == "1");
      if (message->front() == "clock" && message->size() == 2) tell_time((*message)[1]);
      if (message->front() == "hold" && message->size() == 2) held_ = (*message)[1] == "1";
      if (message->front() == "signal" && message->size() == 3) {
        host_.signal(int_of((*message)[1]), int_of((*message)[2]), false);
      }
      return;
    }
    if (job_.complete()) start();
  }

  void trace(bool on) {
    if (on) {
      trace_clock_ = std::make_shared<watch::TickClock>(watch::machine_clock());
      chunks_.emplace();
      host_.begin_trace(trace_clock_, {});
    } else {
      host_.end_trace();
      for (const auto& [process, lost] : std::exchange(lost_, {})) {
        if (lost > 0) pipe_.send({"traced", chunks_->write({.process = process, .lost = lost})});
      }
      pipe_.send({"trace-ended"});
      trace_clock_.reset();
    }
  }

  void tell_time(const std::string& asked) {
    if (trace_clock_ == nullptr) return;
    const auto now = [&] { return std::to_string(trace_clock_->to_monotonic_ns(trace_clock_->now())); };
    const std::string received = now();
    pipe_.send({"clock", asked, received, now()});
  }

  void start() {
    const HostJob& job = job_.job();
    if (!job.folder.empty() && chdir(job.folder.c_str()) != 0) {
      not_started(errno, fmt::format("cannot change to the folder '{}', from which the job was started: {}",
                                     job.folder, std::strerror(errno)));
      return;
    }
    std::vector<int> processes;
    for (const HostJob::Process& process : job.processes) {
      processes.push_back(process.number);
      if (!process.send_output) unsent_.insert(process.number);
    }
    try {
      if (!job.log_folder.empty())
        logs_.emplace(job.log_folder, processes, job.attempt, LogFiles::Earlier::kOfTheseProcesses);
    } catch (const Error& error) {
      return not_started(0, error.what());
    }
    proxy_ = proxy_for(job);
    if (proxy_ == nullptr) return host_.start(job);
    HostJob by_proxy = job;
    for (HostJob::Process& process : by_proxy.processes)
      process.variables[coordination::kProxyVariable] = proxy_->address();
    host_.start(by_proxy);
  }

  void started(int process, pid_t pid, const std::vector<int>& cores) override {
    Message message = {"started", std::to_string(process), std::to_string(pid)};
    for (const int core : cores) message.push_back(std::to_string(core));
    pipe_.send(message);
  }
  void output(int process, Stream stream, std::string_view bytes) override {
    if (logs_) {
      if (const auto trouble = logs_->write(process, bytes)) pipe_.send({"remark", *trouble});
    }
    if (unsent_.contains(process)) return;
    pipe_.send({stream == Stream::kOut ? "out" : "err", std::to_string(process), std::string(bytes)});
  }
  void output_ended(int process, Stream stream) override {
    pipe_.send({stream == Stream::kOut ? "out-ended" : "err-ended", std::to_string(process)});
  }
  void ended(int process, const Outcome& outcome) override {
    pipe_.send({"ended", std::to_string(process), std::to_string(outcome.exit_code),
                std::to_string(outcome.signal)});
  }
  void not_started(int error, const std::string& what) override {
    pipe_.send({"not-started", std::to_string(error), what});
  }
  void reported(watch::ProcessReport report) override {
    // A report that nobody takes now would be out of date when it is taken.
    if (pipe_.pending() > ParentPipe::kMostPending && report.ended.empty()) return;
    const int process = report.process;
    pipe_.send({"report", std::to_string(process), json_text(watch::to_json(report))});
  }
  void stacks_taken(int process, ProcessStacks stacks) override {
    const auto text = [&] { return json_text_of_any(to_json(stacks)); };
    std::string json = text();
    if (const std::size_t size = json.size(); size > MessagePipe::kLongestLine / 2) {  // escapes double it
      stacks.threads.clear();
      stacks.refused = fmt::format("they take {} bytes", size);
      json = text();
    }
    pipe_.send({"stacks", std::to_string(process), json});
  }
  void traced(TraceChunk chunk) override {
    // Events that the launcher does not take in time are lost, like those that are not read in time.
    chunk.lost += std::exchange(lost_[chunk.process], 0);
    if (pipe_.pending() > kMostPendingTrace) {
      lost_[chunk.process] = chunk.lost + chunk.events.size();
      return;
    }
    pipe_.send({"traced", chunks_->write(chunk)});
  }
  void unreachable(const std::string&, const std::string&) override {}
  void remark(const std::string& line) override { pipe_.send({"remark", line}); }

  std::unique_ptr<coordination::HostProxy> proxy_;
  MessagePipe& pipe_ = parent_.pipe();
  Descendants descendants_;
  LocalHost host_{*this, descendants_, false};
  HostJobReader job_;
  std::shared_ptr<watch::TickClock> trace_clock_;  // while a trace is taken
  std::optional<ChunkWriter> chunks_;
  std::map<int, std::uint64_t> lost_;  // events, by process, of chunks that were not sent
  std::optional<LogFiles> logs_;
  std::set<int> unsent_;  // processes whose output stays here
  bool held_ = false;
};

}  // namespace

int run_host_agent() {
  return run_below_parent("host-agent", [] { return Agent().run(); });
}

}  // namespace lockstep::cli
