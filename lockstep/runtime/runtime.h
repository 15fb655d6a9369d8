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
#include "lockstep/coordination/client.h"
#include "lockstep/coordination/server.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/device_threads.h"
#include "lockstep/runtime/failure_watch.h"
#include "lockstep/runtime/launches.h"
#include "lockstep/runtime/plan.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/runtime/settings.h"
#include "lockstep/runtime/stall_watch.h"
#include "lockstep/runtime/topology.h"
#include "lockstep/sharding/device.h"

namespace lockstep::runtime {

/// Of the argument, or else the variable. Throws InitializationError where the variable says neither "throw"
/// nor "exit".
PeerFailurePolicy peer_failure_policy(const InitializeOptions& options, const Environment& environment);

/// This process's membership of the job and its devices. There is at most one; it lives until the process
/// ends.
class Runtime {
 public:
  /// The runtime, made for a single process where there is none yet; `first_use` is then remembered.
  static Runtime& get(const CallSite& first_use = CallSiteScope::current());

  /// The runtime, or nullptr where nothing has used a device yet.
  static Runtime* existing();

  /// Makes the runtime of `initialize()`. Throws InitializationError where there is one.
  static void create(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where);

  int process_index() const { return settings_.place.process_id; }
  int process_count() const { return settings_.place.num_processes; }
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Device>& local_devices() const { return local_devices_; }

  const Platform& platform() const { return *platform_; }

  /// Not where the devices are described.
  pjrt::Client& client() { return *client_; }

  /// Whether the devices are only described: nothing is computed, and arrays have no elements.
  bool described() const { return plan_ != nullptr; }

  /// What is compiled for described devices; only where they are.
  Plan& plan() { return *plan_; }

  /// As pjrt::Client::buffer_from_host; no buffer where the devices are described.
  pjrt::Buffer put(const void* data, DType dtype, std::span<const std::int64_t> dims, Device device,
                   pjrt::HostUse use = pjrt::HostUse::kCopied, std::shared_ptr<void> owner = nullptr) const;

  /// The plugin's device that a local device is.
  const pjrt::Device& pjrt_device(Device device) const;

  /// The plugin's own number of a device, of any process: what a compiled program's replicas are assigned to.
  std::int64_t plugin_id(Device device) const { return plugin_ids_[static_cast<std::size_t>(device.id())]; }

  /// A device's place in a mesh, as an i32 scalar in its memory; made once for each place.
  pjrt::Buffer& position_buffer(Device device, int position);

  /// Whether programs use StableHLO's own collectives: where the platform makes them; on CPU only if
  /// LOCKSTEP_NATIVE_COLLECTIVES=1 asks for it, which XLA's CPU client can do within one process.
  bool native_collectives() const;

  collectives::ProgramRegistry& programs() { return *programs_; }
  collectives::Handouts& handouts() { return world_->handouts(); }
  DeviceThreads& threads() { return *threads_; }
  Launches& launches() { return *launches_; }

  CompileCache& compile_cache() { return compile_cache_; }

  const DebugSettings& debug() const { return settings_.debug; }

  /// The same in every start of the job; empty where nothing gives one.
  const std::string& job_id() const { return settings_.place.job_id; }

  /// Counts restarts of the job, from 0.
  int attempt() const { return settings_.place.attempt; }

  /// Known to the processes of the job only; empty where nobody gave one.
  const std::string& job_secret() const { return settings_.place.job_secret; }

  /// Throws PeerFailure, with the first cause, once the job has failed, and Error after shutdown where the
  /// computation spans processes. What is thrown for the first cause is the same on all processes in its
  /// first line; lines below it, "consequence: ...", say what it ended here.
  void check_healthy(bool spans_processes);

  const Topology& topology() const { return *topology_; }

  /// The job's store, or nullptr in a job of one process.
  coordination::KeyValueStore* store() { return coordination_ ? &coordination_->key_value_store() : nullptr; }
  coordination::CoordinationClient* coordination() { return coordination_.get(); }

  /// The processes were found to do different things; the `minority` are those that differ. To be called
  /// before the DivergenceError is thrown: tells the coordinator, and blocks until it knows.
  coordination::Subject subject(int process) const;
  void report_divergence(const std::vector<int>& minority, const std::string& what);

  /// Ends the job for this process: whatever waits in a collective, or comes to one later, throws the cause.
  /// Only the first cause counts: false for any other.
  bool fail(std::exception_ptr cause);

  /// A launch has failed by this cause before all its collectives were done: ends the job for this process,
  /// whose other devices wait in them, and, where other processes do, for those.
  void launch_failed(const std::exception_ptr& cause, std::string_view program, bool others_wait);

  /// The processes do not do the same in the same order: ends the job so, here and on the others.
  void diverged(const std::string& message);

  void shutdown();
  bool initialized() const { return initialized_ && !left_; }

  /// Called when the process ends: leaves the job in order after status 0; otherwise tells the others so, and
  /// does not wait for them.
  void at_exit(int status);

  /// Called when the process is about to end by std::terminate: tells the others why.
  void at_terminate() noexcept;

 private:
  /// Throws the first cause, with what it ended here.
  void throw_failure(const std::string& consequence);

  Runtime(const Settings& settings, PeerFailurePolicy on_peer_failure);
  void meet();
  void open_devices();
  void describe_devices();
  void exchange_topology();
  ProcessEntry own_entry() const;

  /// Whether there is another process on this host.
  bool shares_its_host() const;
  void watch_for_stalls();
  void job_failed(const coordination::JobError& error);
  void peer_lost(int process, bool left, const std::string& doing);
  void end_with_error(const std::string& what);

  /// Whether this is a child that the job's process has forked: it has none of its threads, and its
  /// connections are the parent's.
  bool is_forked() const;
  void say_banner() const;

  Settings settings_;
  CompileCache compile_cache_;
  const PeerFailurePolicy on_peer_failure_;
  const pid_t pid_;
  CallSite first_use_;
  bool initialized_ = false;
  std::atomic<bool> left_ = false;

  std::unique_ptr<coordination::CoordinationServer> server_;
  std::unique_ptr<coordination::CoordinationClient> coordination_;
  const Platform* platform_ = nullptr;
  std::shared_ptr<pjrt::Client> client_;
  std::unique_ptr<Plan> plan_;
  std::vector<const pjrt::Device*> local_pjrt_;

  std::optional<Topology> topology_;  // Of the lives that have met; there once they have.
  std::unique_ptr<FailureWatch> watch_;
  std::unique_ptr<StallWatch> stall_watch_;  ///< Where the processes look for stalls themselves.

  std::deque<DeviceInfo> device_infos_;
  std::vector<Device> devices_, local_devices_;
  std::vector<std::int64_t> plugin_ids_;  // By Device::id.

  std::unique_ptr<collectives::World> world_;
  std::unique_ptr<collectives::ProgramRegistry> programs_;
  std::unique_ptr<DeviceThreads> threads_;
  std::unique_ptr<Launches> launches_;

  std::mutex positions_mutex_;
  std::map<std::pair<int, int>, pjrt::Buffer> positions_;

  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

}  // namespace lockstep::runtime
