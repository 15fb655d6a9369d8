// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/computation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>

#include "lockstep/array/computation_impl.h"
#include "lockstep/array/parts.h"
#include "lockstep/array/planned.h"
#include "lockstep/array/result_check.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/text.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/overlap.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/direct_slices.h"
#include "lockstep/watch/recorder.h"
#include "lockstep/watch/report.h"

namespace lockstep::internal {

namespace {

using Seconds = std::chrono::duration<double>;
Seconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

}  // namespace

Computation::Computation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Computation::~Computation() = default;
const std::string& Computation::name() const { return impl_->name; }
const ComputationText& Computation::text() const { return impl_->text; }
bool Computation::is_compiled() const { return impl_->is_compiled.load(std::memory_order_acquire); }

void Computation::ensure_compiled() const {
  if (!is_compiled()) compile_lowered();
}

void Computation::compile_lowered() const {
  const std::lock_guard lock(impl_->compiling);
  if (!impl_->to_compile) return;
  auto& [program, mesh] = *impl_->to_compile;
  program.stablehlo = impl_->text.stablehlo;
  impl_->executable = runtime::compile(program, mesh, impl_->name, &impl_->report, impl_->compiler_options);
  impl_->to_compile.reset();
  impl_->is_compiled.store(true, std::memory_order_release);
  if (impl_->only_lower && runtime::Runtime::get().debug().log_compiles) {
    logging::info("[jit] {} is compiled, having been lowered before: {}", impl_->name,
                  impl_->report.to_string());
  }
}

pjrt::MemoryStats Computation::Impl::memory_of_collectives() const {
  pjrt::MemoryStats memory;
  std::set<std::size_t> operands;
  for (const ir::CollectiveSteps::Step& step : only_collectives->steps) {
    memory.temporary += step.result.bytes();
    if (step.operand < inputs.size() && operands.insert(step.operand).second)
      memory.arguments += static_cast<std::int64_t>(step.operand_bytes);
  }
  for (const std::size_t output : only_collectives->outputs)
    memory.outputs += only_collectives->steps[output - inputs.size()].result.bytes();
  memory.temporary -= memory.outputs;
  return memory;
}

Cost Computation::cost() const {
  const bool has_executable = is_compiled() && impl_->executable != nullptr;
  const pjrt::MemoryStats memory = has_executable            ? impl_->executable->memory_stats()
                                   : impl_->planned          ? impl_->planned->memory
                                   : impl_->only_collectives ? impl_->memory_of_collectives()
                                                             : pjrt::MemoryStats();
  Cost cost{impl_->counted.flops, impl_->counted.bytes_accessed, 0, memory.arguments, memory.outputs,
            memory.temporary};
  for (const auto& line : impl_->text.collectives) cost.communicated_bytes += line.total_bytes();
  return cost;
}

std::string Computation::how_compiled() const {
  const Cost cost = this->cost();
  const auto bytes = [](std::int64_t count) { return amount_of_bytes(static_cast<std::uint64_t>(count)); };
  if (runtime::Runtime::get().described() && impl_->planned == nullptr) {
    return fmt::format("partitioned in {:.3f} s, lowered in {:.3f} s, and not compiled, being outside of jit",
                       impl_->partitioning.count(), impl_->lowering.count());
  }
  if (!is_compiled() && impl_->planned == nullptr) {
    return fmt::format("partitioned in {:.3f} s, lowered in {:.3f} s, and not compiled yet",
                       impl_->partitioning.count(), impl_->lowering.count());
  }
  return fmt::format(
      "partitioned in {:.3f} s, lowered in {:.3f} s, {}; on each device {} of arguments, {} of results and "
      "{} besides",
      impl_->partitioning.count(), impl_->lowering.count(), impl_->report.to_string(),
      bytes(cost.argument_bytes), bytes(cost.output_bytes), bytes(cost.temporary_bytes));
}

namespace {

/// The mesh of a computation, from the shardings of its arguments and the options.
class Placement {
 public:
  void add(const Sharding& sharding, std::string_view what) {
    if (!sharding_) {
      sharding_ = sharding;
      what_ = what;
    } else if (!(sharding.mesh() == sharding_->mesh())) {
      fail<ShardingError>(
          "[jit] {} has {}, but {} has {}: all arrays of a computation are over one mesh (at {}). Move one "
          "with device_put",
          what_, describe(*sharding_), what, describe(sharding), CallSiteScope::current().to_string());
    }
  }
  const std::optional<Sharding>& get() const { return sharding_; }

 private:
  static std::string describe(const Sharding& sharding) {
    std::string ids;
    for (Device device : sharding.devices()) ids += fmt::format("{}{}", ids.empty() ? "" : ",", device.id());
    return fmt::format("{} on devices {}", sharding.to_string(), ids);
  }
  std::optional<Sharding> sharding_;
  std::string what_;
};

std::string_view placed_by(const ir::Primitive& primitive) {
  return &primitive == &ir::sharding_constraint_p() ? "with_sharding_constraint" : "shard_map";
}

}  // namespace

namespace {

/// Logs warnings that were not logged before, on one process of the mesh.
void warn_once(const std::vector<std::string>& warnings, const std::string& name, const Mesh& mesh) {
  static std::mutex mutex;
  static std::set<std::string> said;
  if (mesh.devices().front().process_index() != runtime::Runtime::get().process_index()) return;
  const std::lock_guard lock(mutex);
  for (const std::string& text : warnings)
    if (said.insert(text).second) logging::warning("[jit] {}: {}", name, text);
}

}  // namespace

std::shared_ptr<const Computation> Computation::compile(ir::Program traced,
                                                        std::span<const ArrayType* const> arguments,
                                                        const ComputationOptions& options) {
  const NamedScopeReset unnamed;  // its equations have their own
  auto impl = std::make_unique<Impl>();
  impl->is_operation = options.is_operation;
  impl->compiler_options = options.compiler_options;
  impl->only_lower = options.only_lower;
  const auto start = std::chrono::steady_clock::now();
  auto option = [](const std::vector<std::optional<Sharding>>& all, std::size_t i) {
    return i < all.size() ? all[i] : std::nullopt;
  };
  Placement placement;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (auto wanted = option(options.in_shardings, i))
      placement.add(*wanted, fmt::format("in_shardings, array {}", i));
    if (arguments[i]->committed) placement.add(arguments[i]->sharding, fmt::format("argument array {}", i));
  }
  for (std::size_t i = 0; i < options.out_shardings.size(); ++i) {
    if (options.out_shardings[i])
      placement.add(*options.out_shardings[i], fmt::format("out_shardings, array {}", i));
  }
  ir::for_each_equation(traced, [&](const ir::Equation& equation) {
    if (!ir::is_placement(*equation.primitive)) return;
    const Mesh mesh =
        sharding::mesh_of(equation.params.as<ir::PlacementParams>(), runtime::Runtime::get().devices());
    placement.add(NamedSharding(mesh, PartitionSpec()),
                  fmt::format("{} (at {})", placed_by(*equation.primitive), equation.site.to_string()));
  });
  for (std::size_t i = 0; i < traced.outputs.size(); ++i) {
    const Aval& aval = traced.aval(traced.outputs[i]);
    if (aval.varying.empty()) continue;
    fail<TraceError>(
        "[jit] result array {} is {}, one device's own value along '{}': it has left its shard_map. Return "
        "it from the function under shard_map, whose out_specs make it global",
        i, to_string(aval), aval.varying.front());
  }
  const bool committed = placement.get().has_value();
  const Sharding home = [&]() -> Sharding {
    if (committed) return *placement.get();
    if (!arguments.empty()) return arguments.front()->sharding;
    return SingleDeviceSharding(runtime::Runtime::get().local_devices().front());
  }();
  const Mesh& mesh = home.mesh();
  auto over_mesh = [&](const PartitionSpec& spec) -> Sharding {
    if (home.is_single_device()) return home;
    return NamedSharding(mesh, spec);
  };

  ir::Program program = transforms::eliminate_dead_code(std::move(traced));
  impl->check =
      ResultCheck::add_to(program, [types = std::vector<ArrayTypeRef>(arguments.begin(), arguments.end()),
                                    in = options.in_shardings](ir::Program search) {
        const std::vector<const ArrayType*> same(types.begin(), types.end());
        return compile(std::move(search), same, {.in_shardings = in});
      });
  impl->name = program.name;
  impl->text.program = to_string(program);
  impl->inputs.assign(arguments.begin(), arguments.end());
  impl->moved.resize(arguments.size());
  sharding::PartitionOptions partitioning{.axes = mesh.axis_env(),
                                          .gathered_for_loops_bytes = options.gathered_for_loops_bytes,
                                          .kept_gathered_bytes = options.kept_gathered_bytes,
                                          .memory_limit_bytes = options.memory_limit_bytes};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArrayType& type = *arguments[i];
    std::optional<Sharding> wanted = option(options.in_shardings, i);
    if (type.committed && wanted && !(*wanted == type.sharding)) {
      fail<ShardingError>(
          "[jit] argument array {} ({}) has {}, but in_shardings asks for {} (at {}); move it with "
          "device_put, or leave in_shardings out",
          i, to_string(type.aval), type.sharding.to_string(), wanted->to_string(),
          CallSiteScope::current().to_string());
    }
    Sharding target = wanted ? *wanted : type.committed ? type.sharding : over_mesh(PartitionSpec());
    sharding::check_divisible(type.aval, target.spec(), mesh, fmt::format("jit, argument array {}", i));
    if (!(target == type.sharding)) {
      impl->moved[i] = intern(type.aval, target, true);
      impl->moves = true;
    }
    partitioning.in_specs.push_back(target.spec());
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    std::optional<Sharding> wanted = option(options.out_shardings, i);
    if (wanted) {
      sharding::check_divisible(program.aval(program.outputs[i]), wanted->spec(), mesh,
                                fmt::format("jit, result array {}", i));
    }
    partitioning.out_specs.push_back(wanted ? std::optional(wanted->spec()) : std::nullopt);
  }
  program = transforms::direct_slices(std::move(program));
  std::vector<Aval> out_avals = program.output_avals();
  sharding::Partitioned partitioned =
      mesh.size() > 1 ? sharding::partition(program, partitioning)
                      : sharding::Partitioned{program, std::vector<PartitionSpec>(out_avals.size())};
  warn_once(partitioned.warnings, program.name, mesh);
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    Sharding where =
        partitioning.out_specs[i] ? *option(options.out_shardings, i) : over_mesh(partitioned.out_specs[i]);
    impl->outputs.push_back(intern(out_avals[i], where, committed));
  }
  impl->donated = options.donated;
  impl->donated.resize(arguments.size());
  std::string salt = "outputs";
  for (const ArrayTypeRef& type : impl->outputs) salt += " " + type->sharding.spec().to_string();
  for (bool donated : impl->donated) salt += donated ? "d" : "-";
  salt += to_string(options.compiler_options);
  impl->partitioning = since(start);
  return finish(std::move(impl), partitioned.program, mesh.axis_env(), mesh,
                combine(mesh.fingerprint(), fingerprint(salt)),
                {options.combine_threshold_bytes, partitioned.kept_gathered_bytes},
                options.overlap_threshold_bytes);
}

std::shared_ptr<const Computation> Computation::compile_per_device(
    ir::Program program, std::span<const ArrayType* const> arguments, const Mesh& mesh, const Mesh& local,
    const std::vector<PartitionSpec>& in_specs, const std::vector<PartitionSpec>& out_specs) {
  const NamedScopeReset unnamed;
  auto impl = std::make_unique<Impl>();
  impl->check =
      ResultCheck::add_to(program, [types = std::vector<ArrayTypeRef>(arguments.begin(), arguments.end()),
                                    mesh, local, in_specs](ir::Program search) {
        const std::vector<const ArrayType*> same(types.begin(), types.end());
        return compile_per_device(std::move(search), same, mesh, local, in_specs, {PartitionSpec()});
      });
  impl->name = program.name;
  impl->text.program = to_string(program);
  impl->inputs.assign(arguments.begin(), arguments.end());
  impl->moved.resize(arguments.size());
  impl->donated.resize(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Sharding there = NamedSharding(local, in_specs[i]);
    if (arguments[i]->sharding == there) continue;
    impl->moved[i] = intern(arguments[i]->aval, there, true);
    impl->moves = true;
  }
  const std::vector<Aval> out_avals = program.output_avals();
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    const PartitionSpec spec = i < out_specs.size() ? out_specs[i] : PartitionSpec();  // the check's
    Aval aval = out_avals[i];
    for (std::size_t d = 0; d < spec.entries().size(); ++d) {
      aval.shape[d] *= local.axis_env().size(spec.axes(d));
    }
    aval.varying.clear();
    impl->outputs.push_back(intern(std::move(aval), NamedSharding(local, spec), true));
  }
  program = transforms::direct_slices(transforms::eliminate_dead_code(std::move(program)));
  return finish(std::move(impl), program, mesh.axis_env(), mesh, mesh.fingerprint());
}

namespace {

/// "step(f32[64,32], f32[32], …)": the description of a process's program, if another process runs another
/// one.
std::string signature_text(const ir::Program& program) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(program.inputs.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(program.aval(program.inputs[i]));
  }
  if (program.inputs.size() > kShown) text += fmt::format(", … {} in all", program.inputs.size());
  return fmt::format("{}({})", program.name, text);
}

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

/// Whether its devices exchange data over a network, which takes time in which they can compute. Within a
/// host a collective takes the processors' time and memory's.
bool spans_hosts(const Mesh& mesh) {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  if (runtime.described()) return false;
  const auto host = [&](Device device) { return runtime.topology().host_of(device.process_index()); };
  return std::ranges::any_of(mesh.devices(),
                             [&](Device device) { return host(device) != host(mesh.devices().front()); });
}

/// Whether it only does a few collectives: each then takes less time than the launch of a compiled program,
/// which it would become if they were combined.
bool is_few_collectives(const ir::Program& program) {
  constexpr std::ptrdiff_t kFew = 6;
  const auto exchanges = [](const ir::Equation& equation) {
    return !equation.primitive->exchange(equation.params).kind.empty();
  };
  return std::ranges::count_if(program.equations, exchanges) <= kFew &&
         std::ranges::all_of(program.equations, [&](const ir::Equation& equation) {
           return exchanges(equation) || equation.primitive == &ir::reshape_p() ||
                  equation.primitive == &ir::pvary_p();
         });
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

void Computation::Impl::take_place() {
  runtime::Runtime& runtime = runtime::Runtime::get();
  for (int position = 0; position < mesh->size(); ++position) {
    Device device = mesh->devices()[static_cast<std::size_t>(position)];
    if (device.process_index() != runtime.process_index()) {
      spans_processes = true;
      continue;
    }
    local_devices.push_back(device.local_hardware_id());
    locals.push_back({&runtime.pjrt_device(device), position,
                      takes_position ? runtime.position_buffer(device, position).get() : nullptr});
  }
  const bool meet = meet_processes(collectives, *mesh);
  meets_processes = replicated ? spans_processes : meet;
  if (has_collectives || replicated) {
    launch_devices = local_devices;
    std::ranges::sort(launch_devices);
  }
  if (has_collectives) {
    collectives::ProgramCollectives plan{fingerprint, signature, {}, collectives};
    for (Device device : mesh->devices()) plan.devices.push_back(device.id());
    registered = runtime.programs().register_program(plan);
  }
  recorded_name = watch::text(name);
  if (spans_processes && !locals.empty()) {
    const std::vector<int> processes = processes_of(*mesh);
    runtime::LaunchAgreement* const all = runtime.launch_agreement();
    launches = watch::mesh_place(mesh->fingerprint(), watch::describe_processes(processes), all != nullptr);
    if (all != nullptr && meets_processes) {
      std::vector<int> devices;
      for (const Device device : mesh->devices()) devices.push_back(device.id());
      agreement = &all->group(std::move(devices), processes);
    }
    if (replicated && meet) recorded_meeting = watch::text(name + " on the devices");
    recorded = {fingerprint, watch::text(signature),
                watch::text_of_lines(first_bytes(text.program, kMostRecorded))};
  }
}

std::shared_ptr<const Computation> Computation::finish(std::unique_ptr<Impl> impl, const ir::Program& written,
                                                       const ir::AxisEnv& axes, const Mesh& mesh,
                                                       Fingerprint salt, sharding::CombineOptions combining,
                                                       std::optional<std::int64_t> overlap_threshold_bytes) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  const auto start = std::chrono::steady_clock::now();
  impl->donates = std::ranges::find(impl->donated, true) != impl->donated.end();
  // A compiler that does the collectives itself combines them by itself.
  const bool few = is_few_collectives(written) && !impl->donates && impl->compiler_options.empty();
  if (runtime.native_collectives() || mesh.size() == 1 || few) combining.threshold_bytes = 0;
  ir::Program per_device = sharding::combine_collectives(written, axes, combining);
  // Another order of the program may be compiled to other sums within the device.
  const bool where_of_use = spans_hosts(mesh) && !runtime.reproducible_sums();
  const bool overlaps = !runtime.native_collectives() && (overlap_threshold_bytes || where_of_use);
  if (overlaps) {
    sharding::OverlapOptions overlapping;
    if (overlap_threshold_bytes)
      overlapping = {.threshold_bytes = *overlap_threshold_bytes, .operations_per_byte = 0};
    per_device = sharding::overlap_collectives(std::move(per_device), axes, overlapping);
  }
  impl->text.partitioned = sharding::describe(per_device, axes);
  impl->text.collectives = sharding::communication(per_device, axes);
  impl->counted = cost_of(per_device);
  impl->replicated = runtime.native_collectives() && mesh.size() > 1;
  ir::LoweredProgram lowered =
      lower(per_device, {.axes = axes,
                         .donated = impl->check ? std::vector<bool>(impl->donated.size()) : impl->donated,
                         .native_collectives = impl->replicated,
                         .for_cpu = !runtime.native_collectives(),
                         .salt = salt});
  ir::for_each_equation(per_device, [&](const ir::Equation& equation) {
    const bool is_callback =
        equation.primitive == &ir::pure_callback_p() || equation.primitive == &ir::io_callback_p();
    if (is_callback) impl->callbacks.push_back(equation.params);
    if (is_callback || equation.primitive == &ir::debug_p())
      impl->calls_here = fmt::format("{} (at {})", equation.primitive->name, equation.site.to_string());
    if (equation.primitive == &ir::ffi_call_p())
      impl->ffi_targets.push_back(equation.params.as<ir::FfiCallParams>().target);
  });
  impl->mesh.emplace(mesh);
  impl->signature = signature_text(per_device);
  impl->fingerprint = lowered.fingerprint;
  impl->takes_position = lowered.takes_position;
  impl->traits = lowered.traits;
  impl->collectives = lowered.collectives;
  impl->has_collectives = !lowered.collectives.empty() && !impl->replicated;
  if (impl->compiler_options.empty()) impl->only_collectives = lowered.only_collectives;
  if (runtime.described()) {
    for (const Device device : mesh.devices())
      if (device.process_index() == runtime.process_index()) impl->locals.push_back({});
    impl->lowering = since(start);
    if (!impl->is_operation)
      impl->planned = plan_computation(impl->name, per_device, lowered, mesh, impl->text.collectives,
                                       impl->compiler_options);
    impl->text.stablehlo = std::move(lowered.stablehlo);
    impl->is_compiled = true;
    return std::shared_ptr<const Computation>(new Computation(std::move(impl)));
  }
  impl->take_place();
  if (impl->is_operation) impl->collectives.clear();
  impl->lowering = since(start);
  impl->text.stablehlo = std::move(lowered.stablehlo);
  // A program for all devices at once cannot be compiled where none of them is.
  if (impl->replicated && impl->locals.empty())
    impl->is_compiled = true;
  else
    impl->to_compile.emplace(std::move(lowered), mesh);
  if (impl->only_collectives) {
    impl->report.from = runtime::CompileReport::From::kNowhere;
    impl->is_compiled = true;
  }
  std::shared_ptr<const Computation> made(new Computation(std::move(impl)));
  if (!made->impl_->only_lower) made->ensure_compiled();
  return made;
}

}  // namespace lockstep::internal
