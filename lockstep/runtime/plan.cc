// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/plan.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/base/own_file.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::runtime {
namespace {

std::terminate_handler terminate_before_plan = nullptr;

/// Reading an element is how the program of a plan ends, and no error of `lockstep plan`.
[[noreturn]] void write_plan_on_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const DescribedError&) {
    std::fflush(nullptr);
    std::_Exit(0);
  } catch (...) {
  }
  if (terminate_before_plan != nullptr) terminate_before_plan();
  std::abort();
}

/// "data=4,model=2".
std::vector<std::pair<std::string, std::int64_t>> mesh_in(const std::string& text) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string entry = text.substr(start, end - start);
    const std::size_t equals = std::min(entry.find('='), entry.size());
    std::int64_t size = 0;
    const char* last = entry.data() + entry.size();
    const auto read = std::from_chars(std::min(entry.data() + equals + 1, last), last, size);
    if (equals == 0 || read.ec != std::errc() || read.ptr != last || size < 1) {
      lockstep::fail<InitializationError>(
          "[initialize] LOCKSTEP_PLAN_MESH is '{}': expected sizes of axes, such as data=4,model=2", text);
    }
    axes.emplace_back(entry.substr(0, equals), size);
    start = end + 1;
  }
  return axes;
}

nlohmann::json json_of(const PlannedComputation& computation) {
  nlohmann::json collectives = nlohmann::json::array(), largest = nlohmann::json::array();
  for (const PlannedCollective& each : computation.collectives) {
    collectives.push_back({{"kind", each.kind},
                           {"axes", each.axes},
                           {"devices", each.num_devices},
                           {"bytes", each.bytes},
                           {"times", each.times ? nlohmann::json(*each.times) : nlohmann::json()},
                           {"crosses_hosts", each.crosses_hosts},
                           {"crosses_slices", each.crosses_slices},
                           {"site", each.site}});
  }
  for (const ir::LargeValue& each : computation.largest)
    largest.push_back(
        {{"bytes", each.bytes}, {"type", each.type}, {"operation", each.operation}, {"site", each.site}});
  const pjrt::MemoryStats& memory = computation.memory;
  return {{"name", computation.name},
          {"site", computation.site},
          {"mesh", computation.mesh},
          {"devices", computation.num_devices},
          {"calls", computation.calls.load()},
          {"memory",
           {{"arguments", memory.arguments},
            {"outputs", memory.outputs},
            {"aliased", memory.aliased},
            {"temporary", memory.temporary},
            {"generated_code", memory.generated_code},
            {"peak", computation.peak_bytes()}}},
          {"cost", computation.cost},
          {"has_loops", computation.has_loops},
          {"counted_flops", computation.counted_flops},
          {"compile_seconds", computation.compile_seconds},
          {"collectives", collectives},
          {"largest", largest},
          {"does_not_fit", computation.does_not_fit}};
}

}  // namespace

std::int64_t PlannedComputation::peak_bytes() const {
  if (memory.peak > 0) return memory.peak;
  return memory.arguments + memory.outputs - memory.aliased + memory.temporary;
}

Plan::Plan(std::string topology, const Platform& platform, std::shared_ptr<pjrt::Client> client,
           DescribedDevices devices)
    : topology_(std::move(topology)),
      platform_(platform),
      client_(std::move(client)),
      devices_(std::move(devices)) {
  const Environment& environment = Environment::process();
  file_ = environment.get("LOCKSTEP_PLAN_FILE").value_or("");
  mesh_to_try_ = mesh_in(environment.get("LOCKSTEP_PLAN_MESH").value_or(""));
  if (file_.empty()) return;
  write();
  std::atexit([] {
    if (Runtime* runtime = Runtime::existing()) runtime->plan().write();
  });
  terminate_before_plan = std::set_terminate(write_plan_on_terminate);
}

void Plan::compile(PlannedComputation& computation, const ir::LoweredProgram& program, const Mesh& mesh,
                   const CompilerOptions& compiler_options) const {
  pjrt::CompileOptions options = platform_.compile_options(program, compiler_options);
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<pjrt::CompiledProgram> compiled;
  try {
    if (devices_.topology != nullptr) {
      for (const Device device : mesh.devices())
        options.devices.push_back(devices_.devices[static_cast<std::size_t>(device.id())].id);
      compiled = devices_.topology->compile(program.stablehlo, options);
    } else {
      compiled = client_->compile(program.stablehlo, options);
    }
  } catch (const OutOfMemoryError& refused) {
    computation.does_not_fit = refused.what();
  }
  computation.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (compiled == nullptr) return;
  computation.memory = compiled->memory_stats();
  computation.cost = compiled->cost_analysis();
  if (const std::int64_t peak = computation.peak_bytes();
      devices_.memory_bytes > 0 && peak > devices_.memory_bytes) {
    computation.does_not_fit =
        fmt::format("it needs {} bytes of each device's memory, which has {}", peak, devices_.memory_bytes);
  }
  computation.program = std::move(compiled);
}

CodeIdentity Plan::code_identity() const {
  if (devices_.topology != nullptr)
    return runtime::code_identity(*devices_.topology->plugin(), devices_.topology->platform_name());
  return runtime::code_identity(*client_->plugin(), client_->platform_name());
}

void Plan::add(std::shared_ptr<PlannedComputation> computation) {
  {
    std::lock_guard lock(mutex_);
    computations_.push_back(std::move(computation));
  }
  write();
}

std::vector<std::shared_ptr<const PlannedComputation>> Plan::computations() const {
  std::lock_guard lock(mutex_);
  return {computations_.begin(), computations_.end()};
}

void Plan::end_at_read(const std::string& what) {
  const std::string site = CallSiteScope::current().to_string();
  {
    std::lock_guard lock(mutex_);
    if (ended_at_.empty()) ended_at_ = site;
  }
  write();
  fail<DescribedError>(
      "{} is read (at {}), and has no elements: the devices of {} are only described, and nothing is "
      "computed. A plan ends here; to compute, unset LOCKSTEP_TOPOLOGY",
      what, site, topology_);
}

std::vector<std::pair<std::string, std::int64_t>> Plan::axes_to_try(
    std::vector<std::pair<std::string, std::int64_t>> given) {
  if (given.size() != mesh_to_try_.size()) return given;
  auto tried = given;
  for (auto& [name, size] : tried) {
    const auto found = std::ranges::find(mesh_to_try_, name, &std::pair<std::string, std::int64_t>::first);
    if (found == mesh_to_try_.end()) return given;
    size = found->second;
  }
  tried_mesh_ = true;
  return tried;
}

std::string Plan::to_json() const {
  nlohmann::json computations = nlohmann::json::array();
  for (const auto& each : this->computations()) computations.push_back(json_of(*each));
  std::int64_t hosts = 0;
  for (const pjrt::DeviceDescription& device : devices_.devices)
    hosts = std::max<std::int64_t>(hosts, device.process_index + 1);
  std::lock_guard lock(mutex_);
  const nlohmann::json plan = {{"version", 1},
                               {"topology", topology_},
                               {"platform", platform_.name()},
                               {"device_kind", devices_.devices.front().kind},
                               {"devices", devices_.devices.size()},
                               {"hosts", hosts},
                               {"memory_bytes", devices_.memory_bytes},
                               {"peak_flops", devices_.peak_flops},
                               {"operations_outside_of_jit", operations_.load()},
                               {"tried_mesh", tried_mesh_.load()},
                               {"ended_at", ended_at_},
                               {"computations", computations}};
  return json_ascii(plan, 2) + "\n";
}

void Plan::write() const {
  if (file_.empty()) return;
  static std::mutex writing;
  std::lock_guard lock(writing);
  const std::string partial = file_ + ".partial";
  std::string why = write_own_file(partial, to_json(), kReadableFile);
  std::error_code error;
  if (why.empty()) std::filesystem::rename(partial, file_, error);
  if (error) why = error.message();
  if (!why.empty()) logging::error("the plan cannot be written to {}: {}", file_, why);
}

}  // namespace lockstep::runtime
