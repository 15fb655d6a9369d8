// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/host_relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/signals.h"
#include "cli/children/descendants.h"
#include "cli/hosts/agent_protocol.h"
#include "cli/hosts/agent_tree.h"
#include "cli/hosts/parent_pipe.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

using Steady = std::chrono::steady_clock;

class Relay {
 public:
  ~Relay() {
    tree_.reset();
    descendants_.kill_all();
  }

  int run() {
    while (!parent_.gone(job_.hosts().silence)) {
      wait();
      for (const std::string& line : parent_.read()) handle(line);
      for (const Signal& signal : signals_.take()) {
        if (signal.number == SIGCHLD) continue;
        if (!tree_) return 128 + signal.number;
        tree_->signal_own(signal.number);  // as if the host had no relay
      }
      if (tree_ && !tree_->open()) {
        parent_.say_done();
        return 0;
      }
      parent_.keep_alive();
    }
    return 1;
  }

 private:
  void wait() {
    MessagePipe& pipe = parent_.pipe();
    std::vector<pollfd> polled = {pipe.polled_in(), pipe.polled_out(), {signals_.descriptor(), POLLIN, 0}};
    Steady::time_point next = parent_.next_word();
    if (tree_) {
      tree_->hold(parent_.full());
      tree_->add_polled(polled);
      next = std::min(next, tree_->next_work().value_or(next));
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Steady::now());
    poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(0, left.count())));
    if (tree_) tree_->work();
    pipe.flush();
  }

  void handle(const std::string& line) {
    if (const auto addressed = addressed_line(line, kToHost)) {
      if (tree_) tree_->send(addressed->host, addressed->line);
      return;
    }
    const std::optional<Message> message = from_line(line);
    if (!message) return;
    if (message->front() == "pause") {
      parent_.pause();
      if (tree_) tree_->pause();
    }
    if (!tree_ && job_.take(*message) && job_.complete()) start();
  }

  void start() {
    const AgentTreeOptions& hosts = job_.hosts();
    // A command by a relative path is in the launcher's folder; the agents say if there is none.
    if (!hosts.folder.empty()) [[maybe_unused]]
      const int entered = chdir(hosts.folder.c_str());
    tree_.emplace(hosts, [this](int host, std::string_view line) {
      parent_.pipe().queue_line(fmt::format("{}{}\t", kOfHost, host), line);
    });
  }

  Signals signals_;
  ParentPipe parent_;
  const Descendants descendants_;
  RelayJobReader job_;
  std::optional<AgentTree> tree_;
};

}  // namespace

int run_host_relay() {
  return run_below_parent("host-relay", [] { return Relay().run(); });
}

}  // namespace lockstep::cli
