// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/agent_link.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/hosts/agent_protocol.h"
#include "cli/hosts/job_variables.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kSayStillHere(1);
constexpr std::chrono::seconds kUntilHello(60);
constexpr std::chrono::seconds kUntilGone(
    2);  // from the other side's last word, or our hanging up, to the command's end
constexpr std::size_t kWords = 3;
constexpr std::size_t kLongestWord = std::size_t{64} << 10;  // of what a login script prints
constexpr std::size_t kRemarksAtOnce = std::size_t{1} << 20;
constexpr std::size_t kAddress = 64;

std::string name_of_program(const AgentLink::Options& options) {
  const std::string program = std::filesystem::path(options.command.front()).filename();
  return options.from.empty() ? program : fmt::format("{} on host {}", program, options.from);
}

Child start_command(const AgentLink::Options& asked) {
  ChildOptions options;
  try {
    options.program = find_program(asked.command.front());
    options.arguments = asked.command;
    options.environment = merged_environment({});
    options.in = ChildOptions::In::kPipe;
    options.shielded = true;
    return start_child(options);
  } catch (const std::system_error& error) {
    fail("cannot reach host {}: '{}' cannot be run{}: {}", asked.host, asked.command.front(),
         asked.from.empty() ? "" : " on host " + asked.from, describe_error(error.code().value()));
  }
}

}  // namespace

AgentLink::AgentLink(Options options, Heard heard)
    : options_(std::move(options)),
      program_(name_of_program(options_)),
      heard_(std::move(heard)),
      child_(start_command(options_)),
      pipe_(std::make_unique<MessagePipe>(child_.out, child_.in)) {}

AgentLink::~AgentLink() {
  hang_up();
  pipe_.reset();  // closes both ends
  // Without an answer there is nothing that has to end well.
  const Clock::time_point deadline = answered_ ? *ending_ + kUntilGone : *ending_;
  while (!outcome_ && waitpid(child_.pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= deadline) {
      kill(-child_.pid, SIGKILL);
      waitpid(child_.pid, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (child_.err >= 0) close(child_.err);
}

void AgentLink::send(std::string_view begin, std::string_view rest) {
  pipe_->queue_line(begin, rest);
  pipe_->flush();
}

void AgentLink::add_polled(std::vector<pollfd>& polled) const {
  // poll passes over negative ones.
  polled.push_back(held_ ? pollfd{-1, POLLIN, 0} : pipe_->polled_in());
  polled.push_back(pipe_->polled_out());
  polled.push_back({child_.err, POLLIN, 0});
}

void AgentLink::work() {
  if (state_ == State::kClosed) return;
  pipe_->flush();
  // The command's remarks about its end are read before the end is seen.
  read_remarks(false);
  if (held_) return keep_alive();
  // Always, for this process may have been stopped since it polled.
  read_messages();
  look_whether_it_ended();
  if (hung_up()) return;
  keep_alive();
  const Clock::time_point now = Clock::now();
  if (state_ == State::kConnecting && now >= opened_ + kUntilHello) {
    lose(fmt::format("no answer{} within {} s{}{}", options_.from.empty() ? "" : " to host " + options_.from,
                     kUntilHello.count(), last_words(), what_to_do()));
  } else if (answered_ && options_.silence.count() > 0 && now >= heard_at_ + options_.silence) {
    lose(fmt::format("host {} has not answered for {} s", options_.host, options_.silence.count() / 1000));
  }
}

AgentLink::Clock::time_point AgentLink::next_work() const {
  const Clock::time_point next = answered_ ? said_ + kSayStillHere : opened_ + kUntilHello;
  return ending_ && !held_ ? std::min(next, Clock::now() + std::chrono::milliseconds(5)) : next;
}

void AgentLink::hold(bool on) {
  // Messages that waited to be read show that it is still there.
  if (held_ && !on) heard_at_ = Clock::now();
  held_ = on;
}

void AgentLink::pause() { send(to_line_without_end({"pause"}), ""); }

void AgentLink::signal(int number) const {
  if (!outcome_) kill(child_.pid, number);
}

// Tells the other side, about every second, that this one is there.
void AgentLink::keep_alive() {
  const Clock::time_point now = Clock::now();
  if (!answered_ || now < said_ + kSayStillHere) return;
  said_ = now;
  // One that waits to be written says it, too.
  if (pipe_->pending() == 0) pipe_->send({"still-here"});
}

void AgentLink::hang_up() {
  if (!ending_) ending_ = Clock::now();
  if (state_ != State::kClosed) state_ = State::kHungUp;
  pipe_->close_out();
}

void AgentLink::read_messages() {
  // A relay puts a few bytes before its hosts' lines.
  const std::size_t longest = state_ == State::kConnecting ? kLongestWord
                              : options_.from.empty()      ? MessagePipe::kLongestLine + kAddress
                                                           : MessagePipe::kLongestLine;
  const std::vector<std::string> lines = pipe_->read(longest);
  for (const std::string& line : lines) {
    heard_at_ = Clock::now();
    if (hung_up()) continue;
    if (state_ == State::kConnecting) {
      take_hello(line);
    } else if (line != "still-here") {
      heard_(line);
      if (line == "done") hang_up();
    }
  }
  if (pipe_->line_too_long() && !hung_up()) {
    lose(fmt::format(
        "host {} sent a line of more than {} bytes, which is longer than any line of lockstep's agent{}",
        options_.host, longest, last_words()));
  }
}

void AgentLink::take_hello(const std::string& line) {
  const Message message = from_line(line).value_or(Message{""});
  if (message.front() != kAgentHello || message.size() < 4) {
    words_.push_back(shown(line));  // what a login script may print
    if (words_.size() > kWords) words_.pop_front();
  } else if (message[1] != kAgentVersion) {
    lose(
        fmt::format("its lockstep tool uses version {} of the agent protocol, this one uses version {}: "
                    "install the same version of Lockstep on all hosts",
                    shown(message[1]), kAgentVersion));
  } else {
    state_ = State::kAnswered;
    answered_ = true;
    words_.clear();
    heard_(line);
  }
}

void AgentLink::read_remarks(bool all) {
  char buffer[4096];
  while (child_.err >= 0) {
    const ssize_t got = read(child_.err, buffer, sizeof(buffer));
    if (got > 0) {
      errors_.append(buffer, static_cast<std::size_t>(got));
      if (errors_.size() > kRemarksAtOnce) break;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    close(child_.err);
    child_.err = -1;
  }
  const bool over = child_.err < 0 || all;
  const std::size_t last = errors_.size() - (errors_.rfind('\n') + 1);  // of the unfinished line
  if (last > kLongestWord || (over && last > 0)) errors_ += '\n';
  for (std::string& line : take_lines(errors_)) {
    while (line.ends_with('\r')) line.pop_back();
    if (line.empty() || hung_up()) continue;
    // Before the other side answers they are of interest only when it never does.
    if (answered_) heard_(to_line_without_end({"remark", line}));
    words_.push_back(shown(line));
    if (words_.size() > kWords) words_.pop_front();
  }
}

void AgentLink::look_whether_it_ended() {
  const Clock::time_point now = Clock::now();
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
    lose(answered_ ? fmt::format("the connection to host {} ended ({}{})", options_.host, how, last_words())
                   : how + last_words() + what_to_do());
  }
  state_ = State::kClosed;
}

std::string AgentLink::last_words() const {
  return words_.empty() ? "" : fmt::format(": {}", fmt::join(words_, "; "));
}

// Where a relay does not reach a host, the launcher may.
std::string AgentLink::what_to_do() const {
  return options_.from.empty() ? "" : " (the launcher itself reaches up to LOCKSTEP_HOST_FAN_OUT hosts)";
}

void AgentLink::lose(const std::string& why) {
  hang_up();
  heard_(to_line_without_end({"lost", why}));
}

}  // namespace lockstep::cli
