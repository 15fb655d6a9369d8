// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/message_pipe.h"
#include "cli/base/outcome.h"
#include "cli/children/child_process.h"

namespace lockstep::cli {

/// A command such as ssh that runs an agent or a relay on a host, and the messages from and to it
/// (cli/hosts/agent_protocol.h). Each side says at least every second that it is there. Nothing blocks except
/// the destructor. Used by one thread.
class AgentLink {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string host;                      ///< its name, for messages
    std::string from;                      ///< the host that this process runs on; empty: the launcher's
    std::vector<std::string> command;      ///< its standard input and output are the agent's
    std::chrono::milliseconds silence{0};  ///< after which a host that has answered counts as lost; 0: never
  };

  /// Gets, from `work`, the lines of the other side from its hello on, and lines of this one about it: remark
  /// and lost, after which no others come. They have no end. What comes before the hello is not passed on.
  using Heard = std::function<void(std::string_view line)>;

  /// Runs the command. Throws Error if it is not found.
  AgentLink(Options options, Heard heard);
  ~AgentLink();  ///< the other side's input ends, so it ends all processes; waits for it, at most 2 s
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  /// Sends a line, given in two parts and without its end.
  void send(std::string_view begin, std::string_view rest);

  void add_polled(std::vector<pollfd>& polled) const;
  void work();
  Clock::time_point next_work() const;

  /// While on, nothing is read, so that the other side waits when it writes.
  void hold(bool on);

  /// This process will be stopped for a while.
  void pause();

  /// The host is no longer needed.
  void hang_up();

  /// Whether the command still runs, or something must still be received.
  bool open() const { return state_ != State::kClosed; }

  /// Sends a signal to the command.
  void signal(int number) const;

 private:
  void keep_alive();
  void read_messages();
  void take_hello(const std::string& line);
  void read_remarks(bool all);
  void look_whether_it_ended();
  void lose(const std::string& why);
  std::string last_words() const;
  std::string what_to_do() const;
  bool hung_up() const { return state_ == State::kHungUp || state_ == State::kClosed; }

  const Options options_;
  const std::string program_;  // as named in messages
  const Heard heard_;
  Child child_;
  std::unique_ptr<MessagePipe> pipe_;
  std::string errors_;             // an unfinished line of the command's standard error
  std::deque<std::string> words_;  // the last lines that are not messages
  enum class State {
    kConnecting,  ///< the other side has not answered
    kAnswered,
    kHungUp,  ///< everything is done, or the host is lost or not needed any more: its messages are ignored
    kClosed,  ///< the command has ended, or is no longer waited for
  } state_ = State::kConnecting;
  bool answered_ = false;  // at any time
  bool held_ = false;
  std::optional<Outcome> outcome_;  // of the command
  Clock::time_point opened_ = Clock::now(), heard_at_ = opened_, said_ = opened_;
  std::optional<Clock::time_point> ending_;
};

}  // namespace lockstep::cli
