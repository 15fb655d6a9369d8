// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/collectives/registry.h"
#include "lockstep/collectives/world.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/device_memory.h"
#include "lockstep/runtime/device_threads.h"
#include "lockstep/runtime/failure_watch.h"
#include "lockstep/runtime/launch_agreement.h"
#include "lockstep/runtime/launches.h"
#include "lockstep/runtime/plan.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/runtime/settings.h"
#include "lockstep/runtime/stall_watch.h"
#include "lockstep/runtime/topology.h"
#include "lockstep/sharding/device.h"

namespace lockstep::runtime {

/// The policy of the argument, or else of the variable. Throws InitializationError unless the variable is
/// "throw" or "exit".
PeerFailurePolicy peer_failure_policy(const InitializeOptions& options, const Environment& environment);

/// This process's membership of the job, and its devices. There is at most one object; it lives until the
/// process ends, also if the process leaves its job and joins another one.
class Runtime {
 public:
  /// Only if start() threw; otherwise the object is kept.
  ~Runtime();

  /// The runtime; if there is none yet, makes one for a single process and remembers `first_use`.
  static Runtime& get(const CallSite& first_use = CallSiteScope::current());

  /// The runtime, or nullptr if nothing has used a device yet.
  static Runtime* existing();

  /// Makes the runtime for `initialize()`, or joins another job with one that has left its job. Throws
  /// InitializationError if there is another one.
  static void create(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where);

  /// How many jobs this process was in before this one.
  int job() const { return job_; }

  int process_index() const { return settings_.place.process_id; }
  int process_count() const { return settings_.place.num_processes; }
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Device>& local_devices() const { return local_devices_; }

  const Platform& platform() const { return *platform_; }

  /// Must not be called if the devices are described.
  pjrt::Client& client() { return *client_; }

  /// Whether the devices are described: then nothing is computed, and arrays have no elements.
  bool described() const { return plan_ != nullptr; }

  /// The plan; only if the devices are described.
  Plan& plan() { return *plan_; }

  /// As pjrt::Client::buffer_from_host; returns no buffer if the devices are described.
  pjrt::Buffer put(const void* data, DType dtype, std::span<const std::int64_t> dims, Device device,
                   pjrt::HostUse use = pjrt::HostUse::kCopied, std::shared_ptr<void> owner = nullptr) const;

  /// The plugin's device for a local device.
  const pjrt::Device& pjrt_device(Device device) const;

  /// The plugin's own number of a device of any process; a compiled program's replicas are assigned to these
  /// numbers.
  std::int64_t plugin_id(Device device) const { return plugin_ids_[static_cast<std::size_t>(device.id())]; }

  /// A device's position in a mesh, as an i32 scalar in its memory; made once for each position.
  pjrt::Buffer& position_buffer(Device device, int position);

  /// Whether programs use StableHLO's own collectives: if the platform implements them; on CPU only if
  /// LOCKSTEP_NATIVE_COLLECTIVES=1, which XLA's CPU client supports within one process.
  bool native_collectives() const;

  collectives::ProgramRegistry& programs() { return *programs_; }
  collectives::Handouts& handouts() { return world_->handouts(); }
  DeviceThreads& threads() { return *threads_; }
  Launches& launches() { return *launches_; }
  DeviceMemory& device_memory() { return *device_memory_; }

  /// nullptr where collectives compare what the processes launch, and in a job of one process.
  LaunchAgreement* launch_agreement() { return launch_agreement_.get(); }

  CompileCache& compile_cache() { return compile_cache_; }

  /// Those of `initialize()`, completed (settings.h).
  const InitializeOptions& options() const { return settings_.options; }

  /// Whether sums have the same bits however the devices are distributed.
  bool reproducible_sums() const { return *settings_.options.reproducible_sums; }

  /// The same in every start of the job; empty if there is none.
  const std::string& job_id() const { return settings_.place.job_id; }

  /// The number of restarts of the job.
  int attempt() const { return settings_.place.attempt; }

  /// A secret of the job's processes; empty if there is none.
  const std::string& job_secret() const { return settings_.place.job_secret; }

  /// Throws PeerFailure, with the first cause, if the job has failed; throws Error after shutdown if the
  /// computation spans processes. The first line of a PeerFailure is the same on all processes; the lines
  /// below it, "consequence: ...", say what it ended here.
  void check_healthy(bool spans_processes);

  const Topology& topology() const { return *topology_; }

  /// The job's store, or nullptr in a job of one process.
  coordination::KeyValueStore* store() { return coordination_ ? &coordination_->key_value_store() : nullptr; }
  coordination::CoordinationClient* coordination() { return coordination_.get(); }

  /// For divergence, when processes were found to do different things; `minority` are those that differ. Call
  /// report_divergence before throwing the DivergenceError: it reports to the coordinator and blocks until it
  /// has answered.
  coordination::Subject subject(int process) const;
  void report_divergence(const std::vector<int>& minority, const std::string& what);

  /// Ends the job for this process: calls that wait in a collective, and later ones, throw the cause. Only
  /// the first cause counts: returns false for later ones.
  bool fail(std::exception_ptr cause);

  /// Reports that a launch has failed, with this cause, before all its collectives were done. Ends the job
  /// for this process, because its other devices wait in them, and, if other processes wait (`others_wait`),
  /// for those.
  void launch_failed(const std::exception_ptr& cause, std::string_view program, bool others_wait);

  /// Reports that the processes do not run the same programs in the same order: ends the job here and on the
  /// others. `minority` are the processes to blame.
  void diverged(const std::vector<int>& minority, const std::string& message);

  void shutdown();
  bool initialized() const { return initialized_ && !left_; }

  /// Called when the process ends. After status 0 it leaves the job in order; otherwise it tells the other
  /// processes, and does not wait for them.
  void at_exit(int status);

  /// Called when the process is about to end by std::terminate: tells the other processes why.
  void at_terminate() noexcept;

 private:
  /// The first line of the failure's message.
  std::string first_cause();

  /// Throws the first cause, with its consequence here.
  void throw_failure(const std::string& consequence);

  /// Is in no job yet, and has no devices: start() comes next.
  Runtime(const Settings& settings, PeerFailurePolicy on_peer_failure);

  /// What the settings say for the process.
  void apply_settings();

  /// Joins the job and opens the devices.
  void start();

  /// After shutdown(): joins another job. What was made in the one before can be used no more.
  void join_again(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where);
  void meet();
  /// After the processes met: devices, what each has, connections. What fails here is told to the others.
  void set_up();
  void open_devices();
  void describe_devices();
  void exchange_topology();
  ProcessEntry own_entry() const;

  /// Whether another process of the job runs on this host.
  bool shares_its_host() const;
  void watch_for_stalls();
  void job_failed(const coordination::JobError& error);
  void peer_lost(int process, bool left, const std::string& doing);
  void end_with_error(const std::string& what);

  /// Ends all threads and connections to the other processes.
  void close();

  /// Whether this is a forked child of the job's process: it has none of its threads, and its connections are
  /// the parent's.
  bool is_forked() const;
  void say_banner() const;

  Settings settings_;
  int job_ = 0;
  CompileCache compile_cache_;  ///< as the first settings say
  PeerFailurePolicy on_peer_failure_;
  const pid_t pid_;
  CallSite first_use_;
  bool initialized_ = false;
  std::atomic<bool> left_ = false;
  bool between_jobs_ = false;  ///< while it joins another one, and after that failed

  std::optional<FailureWatch> watch_;  // used by the threads of coordination_ and world_
  std::unique_ptr<coordination::CoordinationServer> server_;
  std::unique_ptr<coordination::CoordinationClient> coordination_;
  const Platform* platform_ = nullptr;
  std::shared_ptr<pjrt::Client> client_;
  std::pair<std::string, pjrt::ClientOptions> client_made_of_;  ///< the plugin's path, and the options
  std::vector<std::shared_ptr<pjrt::Client>> clients_before_;   ///< whose buffers arrays may still have
  std::unique_ptr<Plan> plan_;
  std::vector<const pjrt::Device*> local_pjrt_;

  std::optional<Topology> topology_;         // of the current members of the job; set once they have met
  std::unique_ptr<StallWatch> stall_watch_;  ///< set if the processes detect stalls themselves

  std::deque<DeviceInfo> device_infos_;
  std::vector<Device> devices_, local_devices_;
  std::vector<std::int64_t> plugin_ids_;  // by Device::id

  std::unique_ptr<collectives::World> world_;
  std::unique_ptr<collectives::ProgramRegistry> programs_;
  std::unique_ptr<DeviceThreads> threads_;
  std::unique_ptr<DeviceMemory> device_memory_;
  std::unique_ptr<Launches> launches_;
  std::unique_ptr<LaunchAgreement> launch_agreement_;

  std::mutex positions_mutex_;
  std::map<std::pair<int, int>, pjrt::Buffer> positions_;

  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

}  // namespace lockstep::runtime
