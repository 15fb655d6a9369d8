#pragma once

#include <deque>
#include <memory>

#include "cli/child_process.h"
#include "cli/message_pipe.h"
#include "cli/process_host.h"

namespace lockstep::cli {

/// Processes of another host, behind an agent there (cli/host_agent.h) that is run by a command such as ssh.
class RemoteHost : public ProcessHost {
 public:
  /// Runs the command; its standard input and output are the agent's. Throws Error if it is not found.
  RemoteHost(HostListener& listener, std::string name, const std::vector<std::string>& command);
  ~RemoteHost() override;  ///< the agent's input ends, so it ends all processes; waits for it, at most 2 s
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  const std::string& name() const { return name_; }

  /// The agent has answered.
  bool ready() const { return answered_; }

  /// The address of this host as seen by the agent's host; empty if unknown.
  const std::string& seen_from() const { return seen_from_; }

  void start(const HostJob& job) override;
  void add_polled(std::vector<pollfd>& polled) const override;
  void work(std::span<const pollfd> polled) override;
  std::optional<Steady::time_point> next_work() const override;
  void signal(int process, int signal, bool from_terminal) override;
  void ask_for_logs() override;
  void begin_trace(std::shared_ptr<watch::TickClock> clock,
                   std::chrono::milliseconds between_exchanges) override;
  void end_trace() override;
  void take_stacks(std::chrono::milliseconds limit) override;
  bool tracing() const override { return trace_ != nullptr && !trace_->ended && !hung_up(); }
  const std::vector<ClockExchange>* exchanges() const override { return &trace_->exchanges; }
  void hold_output(bool on) override;
  bool open() const override { return state_ != State::kClosed; }

  /// The launcher will be stopped for a while: until it continues, silence is no sign of failure.
  void pause();

  /// The host is no longer needed.
  void hang_up();

 private:
  /// The current trace, or the last one.
  struct Trace {
    std::shared_ptr<watch::TickClock> clock;
    std::chrono::milliseconds between_exchanges;
    std::vector<ClockExchange> exchanges;
    Steady::time_point next_exchange;
    bool waits = false;  ///< for an answer
    bool ended = false;
    ChunkReader chunks;
  };

  void keep_alive();
  void ask_for_time();
  void read_messages();
  void read_remarks(bool all);
  void handle(const Message& message, const std::string& line);
  void take_hello(const Message& message, const std::string& line);
  bool take(const Message& message);
  bool take_of_trace(const Message& message);
  bool take_of_process(int process, const Message& message);
  void look_whether_it_ended();
  void lose(const std::string& why);
  std::string last_words() const;
  bool hung_up() const { return state_ == State::kHungUp || state_ == State::kClosed; }

  HostListener& listener_;
  const std::string name_, program_;
  Child child_;
  std::unique_ptr<MessagePipe> pipe_;
  std::string errors_;             // an unfinished line of the command's standard error
  std::deque<std::string> words_;  // the last lines that are not messages
  std::string seen_from_;
  std::vector<int> all_, running_;
  std::chrono::milliseconds silence_{0};
  enum class State {
    kConnecting,  ///< the agent has not answered
    kReady,       ///< it has, and waits for its processes
    kStarted,
    kHungUp,  ///< everything is done, or the host is lost or not needed any more: its messages are ignored
    kClosed,  ///< the command has ended, or is no longer waited for
  } state_ = State::kConnecting;
  std::unique_ptr<Trace> trace_;
  bool answered_ = false;           // at any time
  bool held_ = false;               // its output
  std::optional<Outcome> outcome_;  // of the command
  Steady::time_point opened_ = Steady::now(), heard_ = opened_, said_ = opened_;
  std::optional<Steady::time_point> ending_;
};

}  // namespace lockstep::cli
