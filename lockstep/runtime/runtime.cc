#include "lockstep/runtime/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/allocator.h"
#include "lockstep/collectives/ffi_handler.h"
#include "lockstep/coordination/graces.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/runtime/callback_calls.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/ffi_targets.h"
#include "lockstep/runtime/hold_coordinator.h"
#include "lockstep/runtime/platform.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

std::mutex creation_mutex;
std::atomic<Runtime*> the_runtime = nullptr;  // never destroyed: arrays may outlive main

constexpr const char* kTopologyKey = "lockstep/topology";

std::terminate_handler terminate_before = nullptr;

/// Ends in the handler that was there before, the program's own or C++'s.
[[noreturn]] void on_terminate() {
  static std::atomic_flag entered;
  if (!entered.test_and_set()) {
    if (Runtime* runtime = the_runtime.load()) runtime->at_terminate();
  }
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

}  // namespace

Runtime& Runtime::get(const CallSite& first_use) {
  if (Runtime* runtime = the_runtime.load(std::memory_order_acquire)) [[likely]]
    return *runtime;
  std::lock_guard lock(creation_mutex);
  if (Runtime* runtime = the_runtime.load()) return *runtime;
  Settings settings = resolve({}, Environment::process());
  cluster::Place& place = settings.place;
  if (place.num_processes > 1) {
    lockstep::fail<InitializationError>(
        "a device was used (at {}) before initialize(), though this process was started as {} of {} "
        "({}); call initialize() first in main",
        first_use.to_string(), place.process_id, place.num_processes, place.why);
  }
  place.coordinator_address.clear();
  std::unique_ptr<Runtime> runtime(new Runtime(settings, OnPeerFailure::kThrow));
  runtime->first_use_ = first_use;
  the_runtime.store(runtime.release(), std::memory_order_release);
  return *the_runtime.load();
}

Runtime* Runtime::existing() { return the_runtime.load(std::memory_order_acquire); }

void Runtime::create(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where) {
  std::lock_guard lock(creation_mutex);
  if (Runtime* runtime = the_runtime.load()) {
    if (runtime->initialized_) {
      lockstep::fail<InitializationError>(
          "[initialize] called a second time (at {}); the first call was at {}. A process joins its "
          "job once",
          where.to_string(), runtime->first_use_.to_string());
    }
    lockstep::fail<InitializationError>(
        "[initialize] called (at {}) after a device was used (first at {}); call initialize() before "
        "anything that touches devices or arrays",
        where.to_string(), runtime->first_use_.to_string());
  }
  std::unique_ptr<Runtime> runtime(new Runtime(settings, std::move(on_peer_failure)));
  runtime->first_use_ = where;
  runtime->initialized_ = true;
  runtime->say_banner();
  the_runtime.store(runtime.release(), std::memory_order_release);
  on_exit([](int status, void*) { the_runtime.load()->at_exit(status); }, nullptr);
  // It is none of the job's processes: what it would wait for does not come.
  pthread_atfork(nullptr, nullptr, [] { the_runtime.load()->failed_ = true; });
  if (settings.place.num_processes > 1) terminate_before = std::set_terminate(on_terminate);
}

Runtime::Runtime(const Settings& settings, PeerFailurePolicy on_peer_failure)
    : settings_(settings),
      compile_cache_(settings_.compile_cache),
      on_peer_failure_(std::move(on_peer_failure)),
      pid_(getpid()) {
  watch::set_process(process_index(), process_count());
  const watch::Doing initializing(watch::Kind::kInitialize, "initialize()");
  // The launcher reads standard output through a pipe: whole lines go out as they are written all the same.
  if (settings_.place.cluster == "launcher") setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  if (process_count() > 1)
    logging::set_prefix(fmt::format("[process {} of {}] ", process_index(), process_count()));
  if (process_count() > 1 && settings_.place.cluster != "launcher")
    set_debug_prefix(fmt::format("[process {} of {}] ", process_index(), process_count()));
  set_max_kept(static_cast<std::size_t>(settings_.max_compiled_programs));
  meet();
  open_devices();
  exchange_topology();
  collectives::tune_allocator(!native_collectives() && shares_its_host());
  std::vector<int> device_process;
  for (Device device : devices_) device_process.push_back(device.process_index());
  watch_ = std::make_unique<FailureWatch>(
      coordination::graces::kForTheCoordinator,
      [this](const coordination::JobError& error) { coordination_->fail(error); });
  auto world = collectives::World::create(
      {.process_index = process_index(),
       .process_count = process_count(),
       .device_process = device_process,
       .process_host = process_host_,
       .interface = settings_.interface,
       .coordinator_address = settings_.place.coordinator_address,
       .store = store(),
       .job_id = settings_.place.job_id,
       .job_secret = settings_.place.job_secret,
       .tls = coordination::TlsFiles::from(Environment::process()),
       .carries_data = !native_collectives(),
       .algorithms = Environment::process().get("LOCKSTEP_ALGORITHMS").value_or(""),
       .arena = collectives::process_arena(),
       .timeout = settings_.initialization_timeout,
       .on_loss = [this](int process, bool left,
                         const std::string& doing) { peer_lost(process, left, doing); },
       .on_divergence = [this](const std::vector<int>& minority,
                               const std::string& what) { report_divergence(minority, what); },
       .abort_grace = coordination::graces::kInCollectives});
  {
    std::lock_guard lock(failure_mutex_);
    world_ = std::move(world);
    if (failed_) world_->abort(failure_);
  }
  programs_ = std::make_unique<collectives::ProgramRegistry>(*world_);
  threads_ = std::make_unique<DeviceThreads>(local_devices_.size());
  launches_ = std::make_unique<Launches>(local_devices_.size(),
                                         fmt::format("process {} of {}", process_index(), process_count()),
                                         [this](const std::string& message) { diverged(message); });
  watch_for_stalls();
}

void Runtime::watch_for_stalls() {
  const bool launched = settings_.place.cluster == "launcher";
  if (process_count() == 1 || (launched && !settings_.stall_timeout) || watch::memory() == nullptr) return;
  stall_watch_ = std::make_unique<StallWatch>(
      *coordination_, host_name(),
      StallWatchOptions{.warning = settings_.stall_warning,
                        .says = !launched,
                        .timeout = settings_.stall_timeout,
                        .on_timeout = [this](const std::vector<int>& culprits, const std::string& words) {
                          coordination::FailureReport report{coordination::FailureKind::kStalled, {}, words};
                          for (const int process : culprits) report.subjects.push_back(subject(process));
                          coordination_->report_failure(report);
                        }});
}

void Runtime::meet() {
  const cluster::Place& place = settings_.place;
  if (place.coordinator_address.empty()) {
    if (process_count() > 1) {
      lockstep::fail<InitializationError>("[initialize] process {} of {} was given no coordinator_address",
                                          process_index(), process_count());
    }
    return;
  }
  coordination::ClientOptions options;
  options.address = place.coordinator_address;
  options.process_id = process_index();
  options.num_processes = process_count();
  options.identity = {place.job_id, place.attempt, place.job_secret};
  options.tls = coordination::TlsFiles::from(Environment::process());
  options.initialization_timeout = settings_.initialization_timeout;
  options.heartbeat_timeout = settings_.heartbeat_timeout;
  options.shutdown_timeout = settings_.shutdown_timeout;
  options.on_error = [this](const coordination::JobError& error) { job_failed(error); };
  server_ = hold_coordinator(settings_, options);
  coordination_ = coordination::make_grpc_client(options);
  coordination_->connect();
}

namespace {

bool nproc_is_given = false;  // before give_each_device_a_thread

/// Gives LAPACK of this process its share of the host's CPUs, where nobody has said how many threads it may
/// have. A process that is bound to some of the CPUs has these for itself.
void share_host(int processes) {
  const auto cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (nproc_is_given || cpus < sysconf(_SC_NPROCESSORS_ONLN)) return;
  lapack::limit_threads(std::max(1, cpus / processes));
}

/// A collective occupies a thread of XLA's pool while it waits for the other devices: the pool must have one
/// for each device of this process, or they wait for each other for ever.
void give_each_device_a_thread(int num_devices) {
  const char* given = std::getenv("NPROC");
  int threads = given != nullptr ? std::atoi(given) : static_cast<int>(std::thread::hardware_concurrency());
  if (threads < num_devices) setenv("NPROC", std::to_string(num_devices).c_str(), /*overwrite=*/1);
}

}  // namespace

void Runtime::open_devices() {
  const Environment& environment = Environment::process();
  if (const char* given = std::getenv("NPROC")) {
    nproc_is_given = true;
    lapack::limit_threads(std::atoi(given));
  }
  const PluginChoice choice = choose_plugin(settings_.platform, environment);
  if (choice.platform == "cpu") give_each_device_a_thread(settings_.num_cpu_devices);
  auto plugin = pjrt::Plugin::load(choice.path);
  if (choice.platform == "cpu") {
    plugin->register_ffi_handler(kDebugTarget, "Host", debug_handler());
    plugin->register_ffi_handler(collectives::kCollectiveTarget, "Host", collectives::collective_handler());
    open_ffi_targets(*plugin);
    plugin->register_ffi_handler(kCallbackTarget, "Host", callback_handler());
    plugin->register_ffi_handler(lapack::kLapackTarget, "Host", lapack::lapack_handler());
    client_ = pjrt::Client::create(
        plugin, {{"cpu_device_count", std::int64_t{settings_.num_cpu_devices}}, {"asynchronous", false}});
  } else {
    client_ = pjrt::Client::create(plugin, cuda_options(settings_.place, environment),
                                   store() ? key_values_of(*store()) : pjrt::KeyValueCallbacks());
  }
  if (settings_.platform != "auto" && client_->platform_name() != settings_.platform) {
    lockstep::fail<InitializationError>(
        "[initialize] the platform {} was asked for, but the plugin {} is for {}; give the platform's own "
        "plugin in LOCKSTEP_PJRT_PLUGIN, or unset it",
        settings_.platform, choice.path, client_->platform_name());
  }
  const auto& all = client_->addressable_devices();
  if (choice.platform == "cuda") {
    local_pjrt_ = all;  // the plugin shows those of visible_devices
    return;
  }
  for (int id : chosen_devices(settings_.place, client_->platform_name(), static_cast<int>(all.size())))
    local_pjrt_.push_back(all[static_cast<std::size_t>(id)]);
}

bool Runtime::shares_its_host() const {
  return process_count() > 1 &&
         std::ranges::count(process_host_, process_host_[static_cast<std::size_t>(process_index())]) > 1;
}

void Runtime::exchange_topology() {
  nlohmann::json mine = {{"process", process_index()},
                         {"host", host_name()},
                         {"host_identity", collectives::host_identity()},
                         {"pid", getpid()},
                         {"incarnation", coordination_ ? coordination_->incarnation() : 0},
                         {"platform", client_->platform_name()},
                         {"devices", nlohmann::json::array()}};
  for (const pjrt::Device* device : local_pjrt_)
    mine["devices"].push_back({{"kind", device->kind()}, {"plugin_id", device->id()}});
  nlohmann::json all = nlohmann::json::array({mine});
  if (coordination::KeyValueStore* store = this->store(); store != nullptr && process_count() > 1) {
    // Process 0 collects, the others read one value: not everybody reads everybody's.
    auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.initialization_timeout);
    std::string global_key = fmt::format("{}/global", kTopologyKey);
    auto local_key = [](int process) { return fmt::format("{}/local/{}", kTopologyKey, process); };
    if (process_index() == 0) {
      for (int process = 1; process < process_count(); ++process) {
        all.push_back(nlohmann::json::parse(store->get(local_key(process), timeout)));
      }
      store->set(global_key, all.dump());
    } else {
      store->set(local_key(process_index()), mine.dump());
      all = nlohmann::json::parse(store->get(global_key, timeout));
    }
  }
  for (const auto& process : all) {
    whereabouts_.push_back({process["host"].get<std::string>(), process["pid"].get<std::int64_t>()});
    incarnations_.push_back(process["incarnation"].get<std::uint64_t>());
    process_host_.push_back(process["host_identity"].get<std::string>());
    int ordinal = 0;
    for (const auto& device : process["devices"]) {
      DeviceInfo& info = device_infos_.emplace_back();
      info.id = static_cast<int>(device_infos_.size()) - 1;
      info.process_index = process["process"].get<int>();
      info.local_ordinal = ordinal++;
      info.platform = process["platform"].get<std::string>();
      info.kind = device["kind"].get<std::string>();
      plugin_ids_.push_back(device["plugin_id"].get<std::int64_t>());
      info.host = process["host"].get<std::string>();
      devices_.push_back(Device(&info));
      if (info.process_index == process_index()) local_devices_.push_back(Device(&info));
    }
  }
  share_host(static_cast<int>(
      std::ranges::count(process_host_, process_host_[static_cast<std::size_t>(process_index())])));
}

void Runtime::say_banner() const {
  if (process_index() != 0) return;
  Joined joined{.holds_coordinator = server_ != nullptr,
                .local_devices = static_cast<int>(local_devices_.size()),
                .global_devices = static_cast<int>(devices_.size())};
  for (const DeviceInfo& device : device_infos_)
    if (std::find(joined.hosts.begin(), joined.hosts.end(), device.host) == joined.hosts.end())
      joined.hosts.push_back(device.host);
  logging::info("{}", banner(settings_, joined));
}

const pjrt::Device& Runtime::pjrt_device(Device device) const {
  return *local_pjrt_[static_cast<std::size_t>(device.local_hardware_id())];
}

bool Runtime::native_collectives() const {
  static const bool asked = Environment::process().get("LOCKSTEP_NATIVE_COLLECTIVES") == "1";
  return client_->platform_name() != "cpu" || (asked && process_count() == 1);
}

pjrt::Buffer& Runtime::position_buffer(Device device, int position) {
  std::lock_guard lock(positions_mutex_);
  pjrt::Buffer& buffer = positions_[{device.id(), position}];
  if (!buffer) {
    auto value = static_cast<std::int32_t>(position);
    buffer = client_->buffer_from_host(&value, DType::kI32, {}, pjrt_device(device));
  }
  return buffer;
}

}  // namespace lockstep::runtime

namespace lockstep {

void initialize(const InitializeOptions& options, std::source_location where) {
  const Environment& environment = Environment::process();
  runtime::Runtime::create(runtime::resolve(options, environment),
                           runtime::peer_failure_policy(options, environment), CallSite::from(where));
}

void shutdown() {
  if (runtime::Runtime* runtime = runtime::Runtime::existing()) runtime->shutdown();
}

bool is_initialized() {
  runtime::Runtime* runtime = runtime::Runtime::existing();
  return runtime != nullptr && runtime->initialized();
}

}  // namespace lockstep
