// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/launcher.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/array/out_of_memory.h"
#include "lockstep/base/text.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/report.h"

namespace lockstep::internal {
namespace {

/// The maximal size of a program's text in the recorder.
constexpr std::size_t kMostRecorded = 64 << 10;

/// Ascending.
std::vector<int> processes_of(const Mesh& mesh) {
  std::vector<int> processes;
  for (const Device device : mesh.devices()) processes.push_back(device.process_index());
  std::ranges::sort(processes);
  processes.erase(std::ranges::unique(processes).begin(), processes.end());
  return processes;
}

/// Whether a group of one of the collectives has devices of several processes.
bool meet_processes(const std::vector<collectives::Collective>& all, const Mesh& mesh) {
  const auto process = [&](int position) {
    return mesh.devices()[static_cast<std::size_t>(position)].process_index();
  };
  return std::ranges::any_of(all, [&](const collectives::Collective& collective) {
    return std::ranges::any_of(collective.groups, [&](const std::vector<int>& group) {
      return std::ranges::any_of(group,
                                 [&](int position) { return process(position) != process(group.front()); });
    });
  });
}

}  // namespace

Launcher::Launcher(const LoweredComputation& computation, std::optional<ir::CollectiveSteps> only_collectives)
    : computation_(computation), only_collectives_(std::move(only_collectives)) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  job_ = runtime.job();
  for (int position = 0; position < computation.mesh->size(); ++position) {
    Device device = computation.mesh->devices()[static_cast<std::size_t>(position)];
    if (device.process_index() != runtime.process_index()) {
      spans_processes_ = true;
      continue;
    }
    local_devices_.push_back(device.local_hardware_id());
    locals_.push_back(
        {&runtime.pjrt_device(device), position,
         computation.takes_position ? runtime.position_buffer(device, position).get() : nullptr});
  }
  const bool meet = meet_processes(computation.collectives, *computation.mesh);
  meets_processes_ = computation.native_collectives ? spans_processes_ : meet;
  const bool in_registry = !computation.collectives.empty() && !computation.native_collectives;
  if (in_registry || computation.native_collectives) {
    launch_devices_ = local_devices_;
    std::ranges::sort(launch_devices_);
  }
  if (in_registry) {
    collectives::ProgramCollectives plan{
        computation.fingerprint, computation.signature, {}, computation.collectives};
    for (Device device : computation.mesh->devices()) plan.devices.push_back(device.id());
    registered_ = runtime.programs().register_program(plan);
  }
  recorded_name_ = watch::text(computation.name);
  if (spans_processes_ && !locals_.empty()) {
    const std::vector<int> processes = processes_of(*computation.mesh);
    runtime::LaunchAgreement* const all = runtime.launch_agreement();
    launches_ =
        watch::mesh_place(combine(computation.mesh->fingerprint(), fingerprint(runtime.topology().meeting())),
                          watch::describe_processes(processes), all != nullptr);
    if (all != nullptr && meets_processes_) {
      std::vector<int> devices;
      for (const Device device : computation.mesh->devices()) devices.push_back(device.id());
      agreement_ = &all->group(std::move(devices), processes);
    }
    if (computation.native_collectives && meet)
      recorded_meeting_ = watch::text(computation.name + " on the devices");
    recorded_ = {computation.fingerprint, watch::text(computation.signature),
                 watch::text_of_lines(first_bytes(computation.text.program, kMostRecorded))};
  }
}

pjrt::MemoryStats Launcher::memory_stats() const {
  if (executable_ != nullptr) return executable_->memory_stats();
  pjrt::MemoryStats memory;
  if (!only_collectives_) return memory;
  std::set<std::size_t> operands;
  for (const ir::CollectiveSteps::Step& step : only_collectives_->steps) {
    memory.temporary += step.result.bytes();
    if (step.operand < computation_.inputs.size() && operands.insert(step.operand).second)
      memory.arguments += static_cast<std::int64_t>(step.operand_bytes);
  }
  for (const std::size_t output : only_collectives_->outputs)
    memory.outputs += only_collectives_->steps[output - computation_.inputs.size()].result.bytes();
  memory.temporary -= memory.outputs;
  return memory;
}

void Launcher::run(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                   std::vector<pjrt::Buffer>& results) const {
  runtime::Runtime& runtime = runtime::Runtime::get();
  const CallSite site = CallSiteScope::current();
  const watch::TextId recorded_site = watch::text(site);
  const std::uint64_t number = launches_ ? watch::count_launch(*launches_, recorded_, recorded_site) : 0;
  const std::uint32_t place = launches_ ? watch::index_of(*launches_) : 0;
  const watch::Doing launching(watch::Kind::kLaunch, recorded_name_, recorded_site, number, place);
  // If the compiler makes the collectives, the devices connect first, and the call may not return before all
  // have arrived.
  std::optional<watch::Doing> meeting;
  if (recorded_meeting_ != 0 && launches_ != nullptr)
    meeting.emplace(watch::Kind::kResult, recorded_meeting_, recorded_site, number, place);
  results.resize(computation_.outputs.size() * locals_.size());
  if (launch_devices_.empty()) {
    launch_all(arguments, options, results);
    return runtime.device_memory().look();
  }
  const runtime::Launches::Launch alone(runtime.launches(), launch_devices_,
                                        {computation_.name, site, meets_processes_});
  if (agreement_ != nullptr) {
    runtime.launch_agreement()->before_launch(*agreement_, computation_.mesh->fingerprint(),
                                              computation_.fingerprint, computation_.signature);
  }
  launch_all(arguments, options, results);
  runtime.device_memory().look();
}

void Launcher::launch_all(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                          std::span<pjrt::Buffer> results) const {
  if (locals_.empty()) return;
  if (computation_.native_collectives) return launch_replicas(arguments, options, results);
  const auto launch_one = [&](std::size_t local) {
    launch(local, arguments, options,
           results.subspan(local * computation_.outputs.size(), computation_.outputs.size()));
  };
  if (locals_.size() == 1) return launch_one(0);
  runtime::Runtime::get().threads().run(local_devices_,
                                        [&, site = CallSiteScope::current()](std::size_t local) {
                                          const CallSiteScope scope(site);
                                          launch_one(local);
                                        });
}

void Launcher::launch_replicas(std::span<const Array* const> arguments, const pjrt::ExecuteOptions& options,
                               std::span<pjrt::Buffer> results) const {
  std::vector<std::vector<PJRT_Buffer*>> lists(locals_.size());
  for (std::size_t local = 0; local < locals_.size(); ++local) {
    for (const Array* array : arguments) lists[local].push_back(data_of(*array)->shards[local].get());
  }
  try {
    executable_->execute_replicas(lists, results, options);
  } catch (const PjrtError&) {
    for (const Local& local : locals_) rethrow_failed_check(local);
    const std::exception_ptr cause = cause_of_failure(nullptr);
    strand_others(cause);
    std::rethrow_exception(cause);
  }
}

void Launcher::rethrow_failed_check(const Local& here) const {
  const auto failed = runtime::take_failed_check(computation_.fingerprint, here.position);
  if (!failed.cause) return;
  if (!failed.everywhere) strand_others(failed.cause);
  std::rethrow_exception(failed.cause);
}

std::exception_ptr Launcher::cause_of_failure(const Local* here) const {
  try {
    throw;
  } catch (const OutOfMemoryError& error) {
    std::vector<Device> devices;
    for (const Local& local : locals_) {
      if (here == nullptr || &local == here)
        devices.push_back(computation_.mesh->devices()[static_cast<std::size_t>(local.position)]);
    }
    pjrt::MemoryStats needs;
    try {
      needs = memory_stats();
    } catch (const PjrtError&) {  // then the plugin does not say
    }
    return explained(error, computation_, needs, devices);
  } catch (...) {
    return std::current_exception();
  }
}

void Launcher::launch(std::size_t local, std::span<const Array* const> arguments,
                      const pjrt::ExecuteOptions& options, std::span<pjrt::Buffer> results) const {
  const Local& here = locals_[local];
  if (only_collectives_) return launch_collectives(here, local, arguments, results);
  thread_local std::vector<PJRT_Buffer*> buffers;
  buffers.clear();
  if (computation_.takes_position) buffers.push_back(here.position_buffer);
  for (const Array* array : arguments) buffers.push_back(data_of(*array)->shards[local].get());
  try {
    executable_->execute(std::span<PJRT_Buffer* const>(buffers), *here.device, results, options);
  } catch (const PjrtError&) {
    rethrow_failed_check(here);
    if (registered_ != nullptr) {
      // XLA hands on the text of a failed collective only; the exception itself waits in the registry.
      auto cause =
          runtime::Runtime::get().programs().take_pending_error(computation_.fingerprint, here.position);
      if (cause) std::rethrow_exception(cause);
    }
    const std::exception_ptr cause = cause_of_failure(&here);
    strand_others(cause);
    std::rethrow_exception(cause);
  }
}

void Launcher::launch_collectives(const Local& here, std::size_t local,
                                  std::span<const Array* const> arguments,
                                  std::span<pjrt::Buffer> results) const {
  runtime::Runtime& runtime = runtime::Runtime::get();
  // Kept from call to call, but empty between them.
  thread_local struct {
    std::vector<pjrt::BufferHold> operands;
    std::vector<pjrt::Buffer> results;
    std::vector<const void*> values;
    void clear() {
      operands.clear();
      results.clear();
      values.clear();
    }
  } used;
  struct Emptied {
    ~Emptied() { used.clear(); }
  } emptied;
  try {
    for (const Array* array : arguments) {
      const pjrt::Buffer& buffer = data_of(*array)->shards[local];
      used.operands.emplace_back(buffer);
      buffer.await();
      used.values.push_back(buffer.unsafe_pointer());
    }
    for (const ir::CollectiveSteps::Step& step : only_collectives_->steps) {
      const Aval& aval = step.result;
      used.results.push_back(runtime.client().uninitialized_buffer(aval.dtype, aval.shape, *here.device));
      used.values.push_back(used.results.back().unsafe_pointer());
    }
  } catch (const PjrtError&) {
    const std::exception_ptr cause = cause_of_failure(&here);
    strand_others(cause);
    std::rethrow_exception(cause);
  }
  const void* const* result = used.values.data() + arguments.size();
  try {
    for (const ir::CollectiveSteps::Step& step : only_collectives_->steps) {
      const auto result_bytes = static_cast<std::size_t>(step.result.bytes());
      runtime.programs().run(registered_, static_cast<std::int64_t>(step.collective), here.position,
                             {used.values[step.operand], step.operand_bytes, step.result.dtype},
                             {*result++, result_bytes, step.result.dtype});
    }
  } catch (...) {
    // It is kept there for XLA's launches, which only get its text.
    runtime.programs().take_pending_error(computation_.fingerprint, here.position);
    throw;
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    results[k] = std::move(used.results[only_collectives_->outputs[k] - arguments.size()]);
}

void Launcher::strand_others(const std::exception_ptr& cause) const {
  const bool alone = locals_.size() == 1 && !meets_processes_;
  if (alone || launch_devices_.empty()) return;
  runtime::Runtime::get().launch_failed(cause, computation_.name, meets_processes_);
}

}  // namespace lockstep::internal
