// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/children/descendants.h"
#include "cli/hosts/agent_tree.h"
#include "cli/hosts/process_host.h"
#include "cli/run/job.h"

namespace lockstep::cli {

class RemoteHost;

/// The hosts of a job, with the interface of ProcessHost for all of them together.
class JobHosts {
 public:
  /// Starts the agents if there are other hosts, or more processes than this process has descriptors for.
  /// Throws Error if the command that runs them is not found.
  JobHosts(const JobOptions& options, const Descendants& descendants, HostListener& listener);
  ~JobHosts();
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// Whether the agents of all hosts have answered.
  bool ready() const;

  /// The names of the hosts whose agents have not answered: of those behind relays, too.
  std::vector<std::string> missing() const;

  /// The name of each process's host.
  const std::vector<std::string>& host_of_process() const { return host_names_; }
  bool several() const { return placements_.size() > 1; }

  /// Whether any process is on another host.
  bool remote() const { return remote_; }
  std::size_t count() const { return placements_.size(); }

  /// The number of agents that start processes; 0 if this process starts them itself.
  std::size_t agents() const { return remotes_.size(); }

  /// An address for the coordinator, "host:port", that all hosts can reach; once they are `ready`. If it
  /// cannot be determined, throws an Error that names the option that helps.
  std::string coordinator_bind_address() const;

  /// Starts the processes, for this attempt of the job. `variables` returns those of each process.
  void start(int attempt, const std::function<std::map<std::string, std::string>(int process)>& variables);

  void add_polled(std::vector<pollfd>& polled);
  void work(std::span<const pollfd> polled);
  std::optional<Steady::time_point> next_work() const;
  void signal(int process, int signal, bool from_terminal);
  bool open() const;

  void hold_output(bool on);
  void ask_for_logs();
  void begin_trace(const std::shared_ptr<watch::TickClock>& clock);
  void end_trace();
  void take_stacks(std::chrono::milliseconds limit);
  bool tracing() const;
  /// The relation of the clocks of a trace's processes to the clock with which it was begun: one for each
  /// agent or host, with the number of its first process. Null if no times were exchanged.
  std::vector<std::pair<int, std::optional<HostClock>>> trace_clocks() const;

  /// The launcher will be stopped for a while.
  void pause();

 private:
  /// Processes of a host that are started by one agent, or by this process.
  struct Part {
    Placement place;
    int first_on_host = 0, on_host = 0;  ///< as in HostJob
  };
  std::vector<Part> parts_of(const std::vector<Placement>& placements) const;
  void reach_by_agents();
  void add(const Part& part, std::unique_ptr<ProcessHost> host);
  void warn_where_not_all_can_join();

  const JobOptions& options_;
  const Descendants& descendants_;
  HostListener& listener_;
  bool remote_ = false;
  std::vector<Placement> placements_;
  std::vector<std::string> host_names_;
  std::vector<int> host_index_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<ProcessHost>> hosts_;  // one for each part
  std::vector<RemoteHost*> remotes_;          // the same, if agents start the processes; otherwise empty
  std::vector<RemoteHost*> remotes_of_tree_;  // the same, by their numbers in the tree
  std::optional<AgentTree> tree_;
  std::vector<std::size_t> polled_counts_;
};

}  // namespace lockstep::cli
