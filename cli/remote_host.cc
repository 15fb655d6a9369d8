#include "cli/remote_host.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/agent_protocol.h"
#include "cli/job_variables.h"
#include "cli/stacks/json.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kSayStillHere(1);
constexpr std::chrono::seconds kUntilHello(60);
constexpr std::chrono::seconds kUntilGone(
    2);  // from the agent's last word, or our hanging up, to the command's end
constexpr std::size_t kWords = 3;
constexpr std::size_t kExchangesAtOnce = 16;  // when a trace begins

Child start_command(const std::string& host, const std::vector<std::string>& command) {
  ChildOptions options;
  try {
    options.program = find_program(command.front());
    options.arguments = command;
    options.environment = merged_environment({});
    options.in = ChildOptions::In::kPipe;
    return start_child(options);
  } catch (const std::system_error& error) {
    fail("cannot reach host {}: '{}' cannot be run: {}", host, command.front(), error.code().message());
  }
}

}  // namespace

RemoteHost::RemoteHost(HostListener& listener, std::string name, const std::vector<std::string>& command)
    : listener_(listener),
      name_(std::move(name)),
      program_(std::filesystem::path(command.front()).filename()),
      child_(start_command(name_, command)),
      pipe_(std::make_unique<MessagePipe>(child_.out, child_.in)) {}

RemoteHost::~RemoteHost() {
  hang_up();
  pipe_.reset();  // closes both ends
  // Without an agent there is nothing that has to end well.
  const Steady::time_point deadline = answered_ ? *ending_ + kUntilGone : *ending_;
  while (!outcome_ && waitpid(child_.pid, nullptr, WNOHANG) == 0) {
    if (Steady::now() >= deadline) {
      kill(-child_.pid, SIGKILL);
      waitpid(child_.pid, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (child_.err >= 0) close(child_.err);
}

void RemoteHost::start(const HostJob& job) {
  if (hung_up()) return;
  silence_ = job.silence;
  state_ = State::kStarted;
  for (const HostJob::Process& process : job.processes) running_.push_back(process.number);
  all_ = running_;
  for (const Message& message : to_messages(job)) pipe_->send(message);
}

void RemoteHost::add_polled(std::vector<pollfd>& polled) const {
  polled.push_back(pipe_->polled_in());
  polled.push_back(pipe_->polled_out());
  polled.push_back({child_.err, POLLIN, 0});
}

void RemoteHost::work(std::span<const pollfd>) {
  if (state_ == State::kClosed) return;
  pipe_->flush();
  // What the command says of its end comes before the end.
  read_remarks(false);
  // Always, for the launcher may have been stopped since it polled.
  read_messages();
  look_whether_it_ended();
  if (hung_up()) return;
  keep_alive();
  ask_for_time();
  const Steady::time_point now = Steady::now();
  if (state_ == State::kConnecting && now >= opened_ + kUntilHello) {
    lose(fmt::format("no answer within {} s{}", kUntilHello.count(), last_words()));
  } else if (state_ == State::kStarted && silence_.count() > 0 && now >= heard_ + silence_) {
    lose(fmt::format("host {} has not answered for {} s", name_, silence_.count() / 1000));
  }
}

std::optional<Steady::time_point> RemoteHost::next_work() const {
  if (state_ == State::kClosed) return std::nullopt;
  Steady::time_point next = answered_ ? said_ + kSayStillHere : opened_ + kUntilHello;
  if (tracing() && !trace_->waits) next = std::min(next, trace_->next_exchange);
  return ending_ ? std::min(next, Steady::now() + std::chrono::milliseconds(5)) : next;
}

void RemoteHost::signal(int process, int signal, bool) {
  if (std::find(running_.begin(), running_.end(), process) == running_.end()) return;
  pipe_->send({"signal", std::to_string(process), std::to_string(signal)});
}

void RemoteHost::ask_for_logs() {
  if (state_ == State::kStarted) pipe_->send({"logs"});
}

void RemoteHost::hold_output(bool on) {
  if (state_ != State::kStarted || on == held_) return;
  held_ = on;
  pipe_->send({"hold", on ? "1" : "0"});
}

void RemoteHost::begin_trace(std::shared_ptr<watch::TickClock> clock,
                             std::chrono::milliseconds between_exchanges) {
  trace_ = std::make_unique<Trace>(Trace{.clock = std::move(clock), .between_exchanges = between_exchanges});
  trace_->ended = state_ != State::kStarted;
  if (trace_->ended) return;
  pipe_->send({"trace", "1"});
  ask_for_time();
}

void RemoteHost::take_stacks(std::chrono::milliseconds limit) {
  if (state_ == State::kStarted) pipe_->send({"stacks", std::to_string(limit.count())});
}

void RemoteHost::end_trace() {
  if (trace_ != nullptr && !trace_->ended) pipe_->send({"trace", "0"});
}

void RemoteHost::ask_for_time() {
  if (!tracing() || trace_->waits || Steady::now() < trace_->next_exchange) return;
  trace_->waits = true;
  pipe_->send({"clock", std::to_string(trace_->clock->to_monotonic_ns(trace_->clock->now()))});
}

bool RemoteHost::take_of_trace(const Message& message) {
  const std::string& kind = message.front();
  if (kind == "traced" && message.size() == 2) {
    TraceChunk chunk = trace_->chunks.read(message[1]);
    if (std::find(all_.begin(), all_.end(), chunk.process) == all_.end()) return false;
    listener_.traced(std::move(chunk));
  } else if (kind == "clock" && message.size() == 4) {
    const std::int64_t heard = trace_->clock->to_monotonic_ns(trace_->clock->now());
    trace_->exchanges.push_back({.asked = number_of(message[1]),
                                 .heard = heard,
                                 .received = number_of(message[2]),
                                 .replied = number_of(message[3])});
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

// Tells the agent, about every second, that the launcher is there.
void RemoteHost::keep_alive() {
  const Steady::time_point now = Steady::now();
  if (!answered_ || now < said_ + kSayStillHere) return;
  said_ = now;
  // One that waits to be written says it, too.
  if (pipe_->pending() == 0) pipe_->send({"still-here"});
}

void RemoteHost::pause() { pipe_->send({"pause"}); }

void RemoteHost::hang_up() {
  if (!ending_) ending_ = Steady::now();
  if (state_ != State::kClosed) state_ = State::kHungUp;
  running_.clear();
  pipe_->close_out();
}

void RemoteHost::read_messages() {
  for (const std::string& line : pipe_->read()) {
    heard_ = Steady::now();
    const std::optional<Message> message = from_line(line);
    handle(message.value_or(Message{""}), line);
  }
}

void RemoteHost::handle(const Message& message, const std::string& line) {
  if (hung_up()) return;
  if (state_ == State::kConnecting) return take_hello(message, line);
  bool known = false;
  try {
    known = take(message);
  } catch (const Error&) {  // a word that should be a number
  }
  if (!known) listener_.remark(fmt::format("host {}: {}", name_, line));
}

void RemoteHost::take_hello(const Message& message, const std::string& line) {
  if (message.front() != kAgentHello || message.size() < 4) {
    words_.push_back(line);  // what a login script may print
    if (words_.size() > kWords) words_.pop_front();
  } else if (message[1] != kAgentVersion) {
    lose(fmt::format(
        "its lockstep tool speaks version {} of the agents' protocol, this one {}: install the same",
        message[1], kAgentVersion));
  } else {
    state_ = State::kReady;
    answered_ = true;
    seen_from_ = message[3];
    words_.clear();
  }
}

// False for what the agent does not say; throws Error where a number is none.
bool RemoteHost::take(const Message& message) {
  const std::string& kind = message.front();
  if (kind == "still-here") return true;
  if (kind == "done") {
    hang_up();
    return true;
  }
  if (kind == "not-started" && message.size() == 3) {
    running_.clear();
    listener_.not_started(static_cast<int>(number_of(message[1])),
                          fmt::format("{} on host {}", message[2], name_));
    return true;
  }
  if (trace_ != nullptr && (kind == "traced" || kind == "clock" || kind == "trace-ended"))
    return take_of_trace(message);
  const bool of_a_process = kind == "started" || kind == "out" || kind == "err" || kind == "out-ended" ||
                            kind == "err-ended" || kind == "ended" || kind == "report" || kind == "stacks";
  return of_a_process && message.size() >= 2 &&
         take_of_process(static_cast<int>(number_of(message[1])), message);
}

bool RemoteHost::take_of_process(int process, const Message& message) {
  if (std::find(all_.begin(), all_.end(), process) == all_.end()) return false;
  const std::string& kind = message.front();
  if (kind == "started" && message.size() >= 3) {
    std::vector<int> cores;
    for (std::size_t i = 3; i < message.size(); ++i) cores.push_back(static_cast<int>(number_of(message[i])));
    listener_.started(process, static_cast<pid_t>(number_of(message[2])), cores);
  } else if ((kind == "out" || kind == "err") && message.size() == 3) {
    listener_.output(process, kind == "out" ? Stream::kOut : Stream::kErr, message[2]);
  } else if (kind == "out-ended" || kind == "err-ended") {
    listener_.output_ended(process, kind == "out-ended" ? Stream::kOut : Stream::kErr);
  } else if (kind == "report" && message.size() == 3) {
    const auto json = nlohmann::json::parse(message[2], nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return false;
    watch::ProcessReport report = watch::from_json(json);
    report.process = process;
    listener_.reported(std::move(report));
  } else if (kind == "stacks" && message.size() == 3) {
    const auto json = nlohmann::json::parse(message[2], nullptr, /*allow_exceptions=*/false);
    listener_.stacks_taken(process, stacks_from_json(json));
  } else if (kind == "ended" && message.size() == 4) {
    const Outcome outcome{.exit_code = static_cast<int>(number_of(message[2])),
                          .signal = static_cast<int>(number_of(message[3]))};
    std::erase(running_, process);
    listener_.ended(process, outcome);
  } else {
    return false;
  }
  return true;
}

void RemoteHost::read_remarks(bool all) {
  char buffer[4096];
  while (child_.err >= 0) {
    const ssize_t got = read(child_.err, buffer, sizeof(buffer));
    if (got > 0) {
      errors_.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    close(child_.err);
    child_.err = -1;
  }
  if ((child_.err < 0 || all) && !errors_.empty() && !errors_.ends_with('\n')) errors_ += '\n';
  for (std::string& line : take_lines(errors_)) {
    while (line.ends_with('\r')) line.pop_back();
    if (line.empty() || hung_up()) continue;
    // Before the agent answers they are of interest only when it never does.
    if (answered_) listener_.remark(fmt::format("host {}: {}", name_, line));
    words_.push_back(std::move(line));
    if (words_.size() > kWords) words_.pop_front();
  }
}

void RemoteHost::look_whether_it_ended() {
  const Steady::time_point now = Steady::now();
  int status = 0;
  if (!outcome_ && waitpid(child_.pid, &status, WNOHANG) == child_.pid) {
    outcome_.emplace();
    if (WIFSIGNALED(status)) outcome_->signal = WTERMSIG(status);
    if (WIFEXITED(status)) outcome_->exit_code = WEXITSTATUS(status);
  }
  if ((outcome_ || pipe_->in_ended()) && !ending_) ending_ = now;
  if (!ending_) return;
  const bool waited = now >= *ending_ + kUntilGone;
  if (!(outcome_ && pipe_->in_ended()) && !waited) return;
  read_remarks(true);
  if (!hung_up()) {
    const std::string how =
        outcome_ ? fmt::format("{} {}", program_, outcome_->describe()) : program_ + " hung up";
    lose(answered_ ? fmt::format("the connection to host {} ended ({}{})", name_, how, last_words())
                   : how + last_words());
  }
  state_ = State::kClosed;
}

std::string RemoteHost::last_words() const {
  return words_.empty() ? "" : fmt::format(": {}", fmt::join(words_, "; "));
}

void RemoteHost::lose(const std::string& why) {
  const std::vector<int> processes = std::exchange(running_, {});
  const bool never_started = state_ != State::kStarted;
  hang_up();
  if (never_started) listener_.unreachable(name_, fmt::format("cannot start on host {}: {}", name_, why));
  for (const int process : processes) listener_.ended(process, {.lost = why});
}

}  // namespace lockstep::cli
