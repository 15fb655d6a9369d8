// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/host_relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/children/descendants.h"
#include "cli/hosts/agent_loop.h"
#include "cli/hosts/agent_protocol.h"
#include "cli/hosts/agent_tree.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

class Relay : public AgentLoop {
 public:
  ~Relay() override {
    tree_.reset();
    descendants_.kill_all();
  }

 private:
  std::chrono::milliseconds silence() const override { return job_.hosts().silence; }
  bool has_begun() const override { return tree_.has_value(); }
  bool open() const override { return tree_->open(); }
  void pass_on(int signal) override { tree_->signal_own(signal); }  // as if the host had no relay
  void add_polled(std::vector<pollfd>& polled) override {
    if (!tree_) return;
    tree_->hold(parent_.full());
    tree_->add_polled(polled);
  }
  std::optional<std::chrono::steady_clock::time_point> next_work() const override {
    return tree_ ? tree_->next_work() : std::nullopt;
  }
  void work(std::span<const pollfd>) override {
    if (tree_) tree_->work();
  }

  void handle(const std::string& line) override {
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

  const Descendants descendants_;
  RelayJobReader job_;
  std::optional<AgentTree> tree_;
};

}  // namespace

int run_host_relay() {
  return run_below_parent("host-relay", [] { return Relay().run(); });
}

}  // namespace lockstep::cli
