// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/variables.h"
#include "lockstep/collectives/allocator.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/coordination/protocol/graces.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/ffi_targets.h"
#include "lockstep/runtime/handed_secret.h"
#include "lockstep/runtime/hold_coordinator.h"
#include "lockstep/runtime/mpi_meeting.h"
#include "lockstep/runtime/platform.h"
#include "lockstep/runtime/preemption.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

std::mutex creation_mutex;
std::atomic<Runtime*> the_runtime = nullptr;  // never destroyed: arrays may outlive main

constexpr const char* kTopologyKey = "lockstep/topology";

void add_attributes(DeviceInfo& info, const pjrt::DeviceDescription& device) {
  info.coords = device.coords();
  info.core_on_chip = static_cast<int>(device.number("core_on_chip", 0));
  info.slice_index = static_cast<int>(device.number("slice_index", 0));
}

std::terminate_handler terminate_before = nullptr;
std::once_flag terminate_is_set;

/// Ends in the handler that was there before, the program's own or C++'s.
[[noreturn]] void on_terminate() {
  static std::atomic_flag entered;
  if (!entered.test_and_set()) {
    if (Runtime* runtime = the_runtime.load()) runtime->at_terminate();
  }
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

void set_terminate() {
  std::call_once(terminate_is_set, [] { terminate_before = std::set_terminate(on_terminate); });
}

/// A socket must not take the place of a standard stream that is closed: what the program prints would go
/// there.
void open_standard_streams() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);  // which takes the lowest free number
  }
}

/// Threads and address space without which gRPC hangs and XLA aborts.
void require_what_libraries_need(const Settings& settings) {
  constexpr int kOfGrpc = 12, kOfXla = 6;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  const int pool = std::max(*settings.options.num_cpu_devices, settings.threads.value_or(CPU_COUNT(&cpus)));
  const bool alone = settings.place.num_processes == 1;
  const std::string what =
      fmt::format("[initialize] process {} of {}", settings.place.process_id, settings.place.num_processes);
  require_address_space(832, what);
  require_threads(2 * pool + kOfXla + (alone ? 0 : kOfGrpc), what);
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
        "a device was used (at {}) before initialize(), although this process was started as {} of {} ({}); "
        "call initialize() first in main",
        first_use.to_string(), place.process_id, place.num_processes, place.why);
  }
  place.coordinator_address.clear();
  std::unique_ptr<Runtime> runtime(new Runtime(settings, OnPeerFailure::kThrow));
  runtime->start();
  runtime->first_use_ = first_use;
  the_runtime.store(runtime.release(), std::memory_order_release);
  return *the_runtime.load();
}

Runtime* Runtime::existing() { return the_runtime.load(std::memory_order_acquire); }

void Runtime::create(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where) {
  std::lock_guard lock(creation_mutex);
  if (Runtime* runtime = the_runtime.load()) {
    if (runtime->initialized_ && runtime->left_)
      return runtime->join_again(settings, std::move(on_peer_failure), where);
    if (runtime->initialized_) {
      lockstep::fail<InitializationError>(
          "[initialize] called a second time (at {}); the first call was at {}. Leave the job by shutdown() "
          "before joining another one",
          where.to_string(), runtime->first_use_.to_string());
    }
    lockstep::fail<InitializationError>(
        "[initialize] called (at {}) after a device was used (first at {}); call initialize() before "
        "anything that touches devices or arrays",
        where.to_string(), runtime->first_use_.to_string());
  }
  std::unique_ptr<Runtime> runtime(new Runtime(settings, std::move(on_peer_failure)));
  runtime->start();
  runtime->first_use_ = where;
  runtime->initialized_ = true;
  runtime->say_banner();
  the_runtime.store(runtime.release(), std::memory_order_release);
  if (the_runtime.load()->described()) return;
  on_exit([](int status, void*) { the_runtime.load()->at_exit(status); }, nullptr);
  // A forked child does not belong to the job: it would wait in vain.
  pthread_atfork(nullptr, nullptr, [] { the_runtime.load()->failed_ = true; });
  if (settings.place.num_processes > 1) set_terminate();
}

void Runtime::join_again(const Settings& settings, PeerFailurePolicy on_peer_failure, const CallSite& where) {
  const auto refuse = [&](const std::string& why) {
    lockstep::fail<InitializationError>("[initialize] called again (at {}) after shutdown(), but {}",
                                        where.to_string(), why);
  };
  if (is_forked()) refuse("this process was forked from one of a job; call it in a new program");
  if (described() || !settings.options.topology->empty())
    refuse("devices are described, which takes a process of its own");
  if (platform_ != nullptr && platform_->makes_collectives()) {
    refuse(
        fmt::format("the plugin of the platform {} has the devices for the job in which they were opened; "
                    "start another process",
                    platform_->name()));
  }
  if (failed_ && !between_jobs_)
    refuse(fmt::format("the job has failed ({}); start another process", first_cause()));
  between_jobs_ = true;
  close();
  failed_ = false;
  launches_.reset();
  launch_agreement_.reset();
  positions_.clear();
  auto topology = std::exchange(topology_, std::nullopt);
  const auto before = std::tuple(settings_, job_, client_, client_made_of_, local_pjrt_, devices_,
                                 local_devices_, plugin_ids_);
  local_pjrt_.clear();
  devices_.clear();
  local_devices_.clear();
  plugin_ids_.clear();
  clear_all_kept();  // which was compiled for the devices of the job before
  begin_preemption_watch();
  settings_ = settings;
  on_peer_failure_ = std::move(on_peer_failure);
  ++job_;
  try {
    apply_settings();
    start();
  } catch (...) {
    // Arrays of the job before can still be read; computations throw this, until another call succeeds.
    close();
    fail(std::current_exception());
    topology_ = std::move(topology);
    std::tie(settings_, job_, client_, client_made_of_, local_pjrt_, devices_, local_devices_, plugin_ids_) =
        before;
    throw;
  }
  first_use_ = where;
  between_jobs_ = left_ = false;
  say_banner();
  if (process_count() > 1) set_terminate();
}

Runtime::Runtime(const Settings& settings, PeerFailurePolicy on_peer_failure)
    : settings_(settings),
      compile_cache_(settings_.compile_cache()),
      on_peer_failure_(std::move(on_peer_failure)),
      pid_(getpid()) {
  open_standard_streams();
  apply_settings();
}

void Runtime::apply_settings() {
  watch_.emplace(coordination::graces::kForTheCoordinator,
                 [this](const coordination::JobError& error) { coordination_->fail(error); });
  require_what_libraries_need(settings_);
  watch::set_process(process_index(), process_count());
  // The launcher reads standard output through a pipe: write complete lines immediately nevertheless.
  if (settings_.place.cluster == "launcher") setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const std::string prefix =
      process_count() > 1 ? fmt::format("[process {} of {}] ", process_index(), process_count()) : "";
  logging::set_prefix(prefix);
  set_debug_prefix(settings_.place.cluster == "launcher" ? "" : prefix);
  set_max_kept(static_cast<std::size_t>(*settings_.options.max_compiled_programs));
}

Runtime::~Runtime() { close(); }

void Runtime::start() {
  const watch::Doing initializing(watch::Kind::kInitialize, "initialize()");
  meet();
  try {
    set_up();
  } catch (const PeerFailure&) {
    throw;  // which the coordinator knows
  } catch (const std::exception& error) {
    end_with_error(error.what());  // the others would wait for this process
    throw;
  }
}

void Runtime::set_up() {
  open_devices();
  if (described()) return;
  if (*settings_.options.reproducible_sums && native_collectives()) {
    lockstep::fail<InitializationError>(
        "[initialize] reproducible_sums is set, but the compiler of the platform {} makes the collectives, "
        "in an order of its own; unset it, or LOCKSTEP_REPRODUCIBLE_SUMS, or use the platform cpu",
        platform_->name());
  }
  exchange_topology();
  if (*settings_.options.data_tls && native_collectives() && topology_->hosts().size() > 1) {
    lockstep::fail<InitializationError>(
        "[initialize] data_tls is set, but the compiler of the platform {} makes the collectives, and sends "
        "the data to other hosts in plain text; unset it, or LOCKSTEP_DATA_TLS, or use the platform cpu",
        platform_->name());
  }
  const auto blocks = native_collectives() ? collectives::LargeBlocks::kAsBefore
                      : shares_its_host()  ? collectives::LargeBlocks::kShared
                                           : collectives::LargeBlocks::kKept;
  collectives::tune_allocator(client_->plugin()->library(), blocks,
                              static_cast<std::size_t>(*settings_.options.kept_blocks_mib) << 20);
  std::vector<int> device_process;
  for (Device device : devices_) device_process.push_back(device.process_index());
  std::vector<std::string> process_host;
  for (int process = 0; process < process_count(); ++process)
    process_host.push_back(topology_->host(process).identity);
  auto world = collectives::World::create(
      {.process_index = process_index(),
       .process_count = process_count(),
       .device_process = device_process,
       .process_host = process_host,
       .network = settings_.network,
       .data_connections = settings_.data_connections,
       .unexpected_messages_mib = *settings_.options.unexpected_messages_mib,
       .interface = *settings_.options.interface,
       .coordinator_address = settings_.place.coordinator_address,
       .store = store(),
       .job_id = settings_.place.job_id,
       .meeting = topology_->meeting(),
       .job_secret = settings_.place.job_secret,
       .tls = coordination::TlsFiles::from(Environment::process()),
       .encrypt = *settings_.options.data_tls,
       .carries_data = !native_collectives(),
       .algorithms = Environment::process().get("LOCKSTEP_ALGORITHMS").value_or(""),
       .reproducible_sums = *settings_.options.reproducible_sums,
       .arena = collectives::process_arena(),
       .timeout = *settings_.options.initialization_timeout,
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
  device_memory_ = std::make_unique<DeviceMemory>(local_devices_);
  launches_ = std::make_unique<Launches>(
      local_devices_.size(), fmt::format("process {} of {}", process_index(), process_count()),
      [this](const std::string& message) { diverged({process_index()}, message); });
  if (native_collectives() && coordination_) {
    launch_agreement_ = std::make_unique<LaunchAgreement>(
        *coordination_, [this](const std::vector<int>& minority, const std::string& message) {
          if (!minority.empty())
            diverged(minority, message);
          else
            fail(std::make_exception_ptr(DivergenceError(message)));
        });
  }
  watch_for_stalls();
}

void Runtime::watch_for_stalls() {
  const bool launched = settings_.place.cluster == "launcher";
  if (process_count() == 1 || (launched && !settings_.options.stall_timeout) || watch::memory() == nullptr)
    return;
  stall_watch_ = std::make_unique<StallWatch>(
      *coordination_, host_name(),
      StallWatchOptions{.warning = *settings_.options.stall_warning,
                        .says = !launched,
                        .timeout = settings_.options.stall_timeout,
                        .on_timeout = [this](const std::vector<int>& culprits, const std::string& words) {
                          coordination::FailureReport report{coordination::FailureKind::kStalled, {}, words};
                          for (const int process : culprits) report.subjects.push_back(subject(process));
                          coordination_->report_failure(report);
                        }});
}

void Runtime::meet() {
  if (settings_.mpi()) server_ = meet_by_mpi(settings_);
  HandedSecret handed;  // until all have come
  const bool address_given = cluster::given_address(Environment::process()).has_value();
  if (hands_secret(settings_.place, address_given)) {
    handed = HandedSecret(settings_.place, secret_folder(), *settings_.options.initialization_timeout);
    settings_.place.job_secret = handed.secret();
  }
  const cluster::Place& place = settings_.place;
  coordination::refuse_short_secret(place.job_secret);
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
  options.initialization_timeout = *settings_.options.initialization_timeout;
  options.heartbeat_timeout = *settings_.options.heartbeat_timeout;
  options.shutdown_timeout = *settings_.options.shutdown_timeout;
  options.on_error = [this](const coordination::JobError& error) { job_failed(error); };
  if (!settings_.mpi()) server_ = hold_coordinator(settings_, options);
  options.address = coordination::reached_at(options.address, Environment::process());
  coordination_ = coordination::make_grpc_client(options);
  coordination_->connect();
}

void Runtime::open_devices() {
  if (!settings_.options.topology->empty()) return describe_devices();
  const Environment& environment = Environment::process();
  const cluster::System& system = cluster::System::real();
  const PluginChoice choice = choose_plugin(*settings_.options.platform, environment, system);
  platform_ = choice.platform;
  platform_->set_environment(settings_, environment, system, /*described=*/false);
  auto plugin = pjrt::Plugin::load(choice.path);
  platform_->register_handlers(*plugin);
  auto made_of = std::pair(choice.path, platform_->client_options(settings_, environment, system));
  if (client_ != nullptr && made_of != client_made_of_) clients_before_.push_back(std::move(client_));
  if (client_ == nullptr) {
    client_ = pjrt::Client::create(plugin, made_of.second,
                                   store() ? key_values_of(*store()) : pjrt::KeyValueCallbacks());
    client_made_of_ = std::move(made_of);
    const auto pinned = static_cast<std::size_t>(*settings_.options.pinned_memory_mib) << 20;
    if (pinned > 0 && platform_->copies_pinned_memory()) client_->pin_host_memory(pinned);
  }
  if (*settings_.options.platform != "auto" && client_->platform_name() != *settings_.options.platform) {
    lockstep::fail<InitializationError>(
        "[initialize] the platform {} was asked for, but the plugin {} is for {}; give the platform's own "
        "plugin in LOCKSTEP_PJRT_PLUGIN, or unset it",
        *settings_.options.platform, choice.path, client_->platform_name());
  }
  const auto& all = client_->addressable_devices();
  for (int id : platform_->used_devices(settings_, static_cast<int>(all.size())))
    local_pjrt_.push_back(all[static_cast<std::size_t>(id)]);
}

void Runtime::describe_devices() {
  const Environment& environment = Environment::process();
  const cluster::System& system = cluster::System::real();
  platform_ = &platform_describing(*settings_.options.topology);
  settings_.options.num_cpu_devices = 1;  // One device's program is compiled.
  platform_->set_environment(settings_, environment, system, /*described=*/true);
  auto plugin = pjrt::Plugin::load(plugin_of(*platform_, environment));
  platform_->register_handlers(*plugin);
  DescribedDevices described = platform_->describe(*settings_.options.topology, plugin);
  if (described.topology == nullptr)
    client_ = pjrt::Client::create(plugin, platform_->client_options(settings_, environment, system));
  for (const pjrt::DeviceDescription& device : described.devices) {
    DeviceInfo& info = device_infos_.emplace_back();
    info.id = static_cast<int>(device_infos_.size()) - 1;
    info.process_index = device.process_index;
    const bool first =
        info.id == 0 || device_infos_[device_infos_.size() - 2].process_index != device.process_index;
    info.local_ordinal = first ? 0 : device_infos_[device_infos_.size() - 2].local_ordinal + 1;
    info.platform = platform_->name();
    info.kind = device.kind;
    info.host = fmt::format("host{}", device.process_index);
    info.memory_bytes = described.memory_bytes;
    add_attributes(info, device);
    plugin_ids_.push_back(device.id);
    settings_.place.num_processes = std::max(settings_.place.num_processes, device.process_index + 1);
    devices_.push_back(Device(&info));
    if (info.process_index == process_index()) local_devices_.push_back(Device(&info));
  }
  plan_ = std::make_unique<Plan>(*settings_.options.topology, *platform_, client_, std::move(described));
}

bool Runtime::shares_its_host() const {
  for (int process = 0; process < process_count(); ++process) {
    if (process != process_index() && topology_->host_of(process) == topology_->host_of(process_index()))
      return true;
  }
  return false;
}

ProcessEntry Runtime::own_entry() const {
  ProcessEntry mine{.host = {host_name(), packed_digest(collectives::host_identity())},
                    .shape = {client_->platform_name(), packed_digest(machine_identity(*client_)), {}},
                    .pid = getpid(),
                    .incarnation = coordination_ ? coordination_->incarnation() : 0,
                    .addresses = collectives::host_addresses()};
  for (const pjrt::Device* device : local_pjrt_) {
    const pjrt::DeviceDescription& description = device->description();
    DeviceRun one{.kind = device->kind(),
                  .first_plugin_id = device->id(),
                  .coords = description.coords(),
                  .core_on_chip = static_cast<int>(description.number("core_on_chip", 0)),
                  .slice_index = static_cast<int>(description.number("slice_index", 0)),
                  .memory_bytes = device->memory_bytes().value_or(0)};
    std::vector<DeviceRun>& runs = mine.shape.devices;
    if (!runs.empty() && runs.back().goes_on_with(one)) {
      ++runs.back().count;
    } else {
      runs.push_back(std::move(one));
    }
  }
  return mine;
}

/// All processes put their entries into the store; process 0 reads them together and makes one value of them,
/// which the others read.
void Runtime::exchange_topology() {
  const ProcessEntry mine = own_entry();
  if (process_count() == 1) {
    topology_.emplace(mine);
  } else {
    const auto timeout =
        std::chrono::duration_cast<std::chrono::milliseconds>(*settings_.options.initialization_timeout);
    const std::string global = fmt::format("{}/global", kTopologyKey),
                      local = fmt::format("{}/local", kTopologyKey);
    // The keys are of one length, so that the entries are read in the processes' order.
    store()->set(fmt::format("{}/{:08}", local, process_index()), mine.encode());
    coordination_->barrier(local, timeout);
    if (process_index() == 0) {
      std::vector<std::string> entries;
      for (auto& [key, entry] : store()->get_directory(local)) entries.push_back(std::move(entry));
      topology_.emplace(entries, coordination::random_nonce(),
                        CommonOptions{.reproducible_sums = *settings_.options.reproducible_sums,
                                      .data_tls = *settings_.options.data_tls});
      store()->set(global, topology_->encode());
      store()->erase(local);
    } else {
      topology_.emplace(store()->get(global, timeout), process_count());
    }
    const auto compare = [&](const char* name, const char* variable, bool own, bool theirs) {
      if (own == theirs) return;
      lockstep::fail<InitializationError>(
          "[initialize] {} is {} in process {} of {}, but {} in process 0: set it, or {}, to the same in all "
          "processes",
          name, own, process_index(), process_count(), theirs, variable);
    };
    const CommonOptions& common = topology_->options();
    compare("reproducible_sums", "LOCKSTEP_REPRODUCIBLE_SUMS", *settings_.options.reproducible_sums,
            common.reproducible_sums);
    compare("data_tls", "LOCKSTEP_DATA_TLS (lockstep run --encrypt)", *settings_.options.data_tls,
            common.data_tls);
    // So that no process goes on, and perhaps ends, before another one has found a difference.
    coordination_->barrier(fmt::format("{}/compared", kTopologyKey), timeout);
  }
  for (int process = 0; process < process_count(); ++process) {
    int ordinal = 0;
    for (const DeviceRun& run : topology_->shape(process).devices) {
      for (int i = 0; i < run.count; ++i) {
        DeviceInfo& info = device_infos_.emplace_back();
        info.id = static_cast<int>(devices_.size());
        info.job = job_;
        info.process_index = process;
        info.local_ordinal = ordinal++;
        info.platform = topology_->shape(process).platform;
        info.kind = run.kind;
        info.host = topology_->host(process).name;
        info.coords = run.coords;
        info.core_on_chip = run.core_on_chip;
        info.slice_index = run.slice_index;
        info.memory_bytes = run.memory_bytes;
        plugin_ids_.push_back(run.first_plugin_id + i);
        devices_.push_back(Device(&info));
        if (process != process_index()) continue;
        local_devices_.push_back(Device(&info));
        // Clients are kept until the process ends.
        info.memory_stats = [device = &pjrt_device(local_devices_.back())] { return device->memory_stats(); };
      }
    }
  }
  int processes_here = 0;
  for (int process = 0; process < process_count(); ++process)
    processes_here += topology_->host_of(process) == topology_->host_of(process_index());
  platform_->share_host(processes_here);
}

void Runtime::say_banner() const {
  if (process_index() != 0) return;
  Joined joined{.holds_coordinator = server_ != nullptr,
                .local_devices = static_cast<int>(local_devices_.size()),
                .global_devices = static_cast<int>(devices_.size())};
  std::set<std::string> seen;
  if (described()) {
    for (Device device : devices_)
      if (seen.insert(device.host()).second) joined.hosts.push_back(device.host());
  } else {
    for (const HostEntry& host : topology_->hosts())
      if (seen.insert(host.name).second) joined.hosts.push_back(host.name);
  }
  logging::info("{}", banner(settings_, joined));
}

const pjrt::Device& Runtime::pjrt_device(Device device) const {
  return *local_pjrt_[static_cast<std::size_t>(device.local_hardware_id())];
}

bool Runtime::native_collectives() const {
  static const bool asked = Environment::process().get("LOCKSTEP_NATIVE_COLLECTIVES") == "1";
  return platform_->makes_collectives() || (asked && process_count() == 1);
}

pjrt::Buffer Runtime::put(const void* data, DType dtype, std::span<const std::int64_t> dims, Device device,
                          pjrt::HostUse use, std::shared_ptr<void> owner) const {
  if (described()) return {};
  try {
    pjrt::Buffer buffer =
        client_->buffer_from_host(data, dtype, dims, pjrt_device(device), use, std::move(owner));
    device_memory_->look();
    return buffer;
  } catch (const OutOfMemoryError& error) {
    const Aval aval{dtype, Shape(dims.begin(), dims.end()), false, {}};
    const std::string in_use = describe_memory(device);
    lockstep::fail<OutOfMemoryError>(
        "[device_put] process {} of {} has no memory left on {} for {}, {} (at {}): {}{}{}", process_index(),
        process_count(), device.to_string(), to_string(aval),
        amount_of_bytes(static_cast<std::uint64_t>(aval.bytes())), CallSiteScope::current().to_string(),
        error.what(), in_use.empty() ? "" : "\n  in use: ", in_use);
  }
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
