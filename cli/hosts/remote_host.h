// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "cli/base/messages.h"
#include "cli/hosts/process_host.h"

namespace lockstep::cli {

/// Processes of another host, behind an agent there (cli/hosts/host_agent.h), which AgentTree reaches.
class RemoteHost : public ProcessHost {
 public:
  /// Sends a message to the agent.
  using Send = std::function<void(const Message& message)>;

  RemoteHost(HostListener& listener, std::string name, Send send);
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  const std::string& name() const { return name_; }

  /// A line from the agent, or about it, as AgentTree::Heard gets them.
  void heard(std::string_view line);

  /// The agent has answered.
  bool ready() const { return answered_; }

  /// The address by which whoever reaches the agent, this host or a relay, is seen there; empty if unknown.
  const std::string& seen_from() const { return seen_from_; }

  void start(const HostJob& job) override;
  void add_polled(std::vector<pollfd>&) const override {}
  void work(std::span<const pollfd> polled) override;
  std::optional<Steady::time_point> next_work() const override;
  void signal(int process, int signal, bool from_terminal) override;
  void ask_for_logs() override;
  void begin_trace(std::shared_ptr<watch::TickClock> clock,
                   std::chrono::milliseconds between_exchanges) override;
  void end_trace() override;
  void take_stacks(std::chrono::milliseconds limit) override;
  bool tracing() const override { return trace_ != nullptr && !trace_->ended && state_ != State::kOver; }
  const std::vector<ClockExchange>* exchanges() const override { return &trace_->exchanges; }
  void hold_output(bool on) override;
  bool open() const override { return state_ != State::kOver; }

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

  void ask_for_time();
  void take_hello(const Message& message);
  bool take(const Message& message);
  bool take_of_trace(const Message& message);
  bool take_of_process(int process, const Message& message);
  void lose(const std::string& why, bool with_another);
  void end();

  HostListener& listener_;
  const std::string name_;
  const Send send_;
  std::string seen_from_;
  std::vector<int> all_, running_;
  enum class State {
    kConnecting,  ///< the agent has not answered
    kReady,       ///< it has, and waits for its processes
    kStarted,
    kOver,  ///< everything is done, or the host is lost: its messages are ignored
  } state_ = State::kConnecting;
  std::unique_ptr<Trace> trace_;
  bool answered_ = false;  // at any time
  bool held_ = false;      // its output
};

}  // namespace lockstep::cli
