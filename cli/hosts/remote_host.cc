// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/remote_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cli/hosts/agent_protocol.h"
#include "cli/stacks/json.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kExchangesAtOnce = 16;  // when a trace begins
constexpr int kMostStatus = 255;
constexpr std::int64_t kLatestTime = std::int64_t{1} << 60;  // in nanoseconds; of sums and differences, too

}  // namespace

RemoteHost::RemoteHost(HostListener& listener, std::string name, Send send)
    : listener_(listener), name_(std::move(name)), send_(std::move(send)) {}

void RemoteHost::start(const HostJob& job) {
  if (state_ == State::kOver) return;
  state_ = State::kStarted;
  for (const HostJob::Process& process : job.processes) running_.push_back(process.number);
  all_ = running_;
  for (const Message& message : to_messages(job)) send_(message);
}

void RemoteHost::work(std::span<const pollfd>) { ask_for_time(); }

std::optional<Steady::time_point> RemoteHost::next_work() const {
  return tracing() && !trace_->waits ? std::optional(trace_->next_exchange) : std::nullopt;
}

void RemoteHost::signal(int process, int signal, bool) {
  if (std::find(running_.begin(), running_.end(), process) == running_.end()) return;
  send_({"signal", std::to_string(process), std::to_string(signal)});
}

void RemoteHost::ask_for_logs() {
  if (state_ == State::kStarted) send_({"logs"});
}

void RemoteHost::hold_output(bool on) {
  if (state_ != State::kStarted || on == held_) return;
  held_ = on;
  send_({"hold", on ? "1" : "0"});
}

void RemoteHost::begin_trace(std::shared_ptr<watch::TickClock> clock,
                             std::chrono::milliseconds between_exchanges) {
  trace_ = std::make_unique<Trace>(Trace{.clock = std::move(clock), .between_exchanges = between_exchanges});
  trace_->ended = state_ != State::kStarted;
  if (trace_->ended) return;
  send_({"trace", "1"});
  ask_for_time();
}

void RemoteHost::take_stacks(std::chrono::milliseconds limit) {
  if (state_ == State::kStarted) send_({"stacks", std::to_string(limit.count())});
}

void RemoteHost::end_trace() {
  if (trace_ != nullptr && !trace_->ended) send_({"trace", "0"});
}

void RemoteHost::ask_for_time() {
  if (!tracing() || trace_->waits || Steady::now() < trace_->next_exchange) return;
  trace_->waits = true;
  send_({"clock", std::to_string(trace_->clock->to_monotonic_ns(trace_->clock->now()))});
}

bool RemoteHost::take_of_trace(const Message& message) {
  const std::string& kind = message.front();
  if (kind == "traced" && message.size() == 2) {
    TraceChunk chunk = trace_->chunks.read(message[1]);
    if (std::find(all_.begin(), all_.end(), chunk.process) == all_.end()) return false;
    listener_.traced(std::move(chunk));
  } else if (kind == "clock" && message.size() == 4 && trace_->waits) {
    const std::int64_t received = number_of(message[2]), replied = number_of(message[3]);
    if (std::min(received, replied) < 0 || std::max(received, replied) > kLatestTime) return false;
    const std::int64_t heard = trace_->clock->to_monotonic_ns(trace_->clock->now());
    trace_->exchanges.push_back(
        {.asked = number_of(message[1]), .heard = heard, .received = received, .replied = replied});
    trace_->waits = false;
    const bool first_ones = trace_->exchanges.size() < kExchangesAtOnce;
    trace_->next_exchange =
        Steady::now() + (first_ones ? std::chrono::milliseconds(0) : trace_->between_exchanges);
    ask_for_time();
  } else if (kind == "trace-ended") {
    trace_->ended = true;
  } else {
    return false;
  }
  return true;
}

void RemoteHost::heard(std::string_view line) {
  const Message message = from_line(line).value_or(Message{""});
  const std::string& kind = message.front();
  if (kind == "remark" && message.size() == 2)
    return listener_.remark(fmt::format("host {}: {}", name_, shown(message[1])));
  if (state_ == State::kOver) return;
  if (kind == "lost" && message.size() >= 2) return lose(shown(message[1]), message.size() > 2);
  if (kind == kAgentHello && message.size() >= 4 && state_ == State::kConnecting) return take_hello(message);
  bool known = false;
  try {
    known = take(message);
  } catch (const Error&) {  // a word that should be a number
  }
  if (!known) listener_.remark(fmt::format("host {}: {}", name_, shown(line)));
}

void RemoteHost::take_hello(const Message& message) {
  state_ = State::kReady;
  answered_ = true;
  seen_from_ = message[3];
}

// False for what the agent does not say; throws Error where a number is none.
bool RemoteHost::take(const Message& message) {
  const std::string& kind = message.front();
  if (kind == "done") {
    end();
    return true;
  }
  if (kind == "not-started" && message.size() == 3) {
    running_.clear();
    listener_.not_started(int_of(message[1]), fmt::format("host {}: {}", name_, shown(message[2])));
    return true;
  }
  if (trace_ != nullptr && (kind == "traced" || kind == "clock" || kind == "trace-ended"))
    return take_of_trace(message);
  const bool of_a_process = kind == "started" || kind == "out" || kind == "err" || kind == "out-ended" ||
                            kind == "err-ended" || kind == "ended" || kind == "report" || kind == "stacks";
  return of_a_process && message.size() >= 2 && take_of_process(int_of(message[1]), message);
}

bool RemoteHost::take_of_process(int process, const Message& message) {
  if (std::find(all_.begin(), all_.end(), process) == all_.end()) return false;
  const std::string& kind = message.front();
  if (kind == "started" && message.size() >= 3) {
    std::vector<int> cores;
    for (std::size_t i = 3; i < message.size(); ++i) cores.push_back(int_of(message[i]));
    listener_.started(process, int_of(message[2]), cores);
  } else if ((kind == "out" || kind == "err") && message.size() == 3) {
    listener_.output(process, kind == "out" ? Stream::kOut : Stream::kErr, message[2]);
  } else if (kind == "out-ended" || kind == "err-ended") {
    listener_.output_ended(process, kind == "out-ended" ? Stream::kOut : Stream::kErr);
  } else if (kind == "report" && message.size() == 3) {
    const auto json = try_parse_json(message[2]);
    if (!json.is_object()) return false;
    watch::ProcessReport report = watch::from_json(json);
    report.process = process;
    listener_.reported(std::move(report));
  } else if (kind == "stacks" && message.size() == 3) {
    const auto json = try_parse_json(message[2]);
    listener_.stacks_taken(process, stacks_from_json(json));
  } else if (kind == "ended" && message.size() == 4) {
    Outcome outcome{.exit_code = int_of(message[2]), .signal = int_of(message[3])};
    if (outcome.exit_code < 0 || outcome.exit_code > kMostStatus || outcome.signal < 0 ||
        outcome.signal >= NSIG) {
      outcome = {.lost = fmt::format("host {} says that it ended with exit status {} and signal {}", name_,
                                     shown(message[2]), shown(message[3]))};
    }
    std::erase(running_, process);
    listener_.ended(process, outcome);
  } else {
    return false;
  }
  return true;
}

void RemoteHost::end() {
  state_ = State::kOver;
  running_.clear();
}

void RemoteHost::lose(const std::string& why, bool with_another) {
  const std::vector<int> processes = running_;
  const bool never_started = state_ != State::kStarted;
  end();
  // The other one is the reason.
  if (never_started && !with_another)
    listener_.unreachable(name_, fmt::format("cannot start on host {}: {}", name_, why));
  for (const int process : processes) listener_.ended(process, {.lost = why, .with_another = with_another});
}

}  // namespace lockstep::cli
