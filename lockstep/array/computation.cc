// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/computation.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "lockstep/array/computation_impl.h"
#include "lockstep/array/planned.h"
#include "lockstep/array/result_check.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/lower.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/overlap.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/direct_slices.h"
#include "lockstep/transforms/early_pads.h"
#include "lockstep/transforms/select_edges.h"

namespace lockstep::internal {

namespace {

using Seconds = std::chrono::duration<double>;
Seconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

}  // namespace

Computation::Computation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Computation::~Computation() = default;
const LoweredComputation& Computation::lowered() const { return impl_->lowered; }
bool Computation::is_compiled() const { return impl_->is_compiled.load(std::memory_order_acquire); }

void Computation::ensure_compiled() const {
  if (!is_compiled()) compile_lowered();
}

void Computation::compile_lowered() const {
  const std::lock_guard lock(impl_->compiling);
  if (!impl_->to_compile) return;
  impl_->launcher->set_executable(runtime::compile(lowered().program(), *lowered().mesh, name(),
                                                   &impl_->report, impl_->compiler_options));
  impl_->to_compile = false;
  impl_->is_compiled.store(true, std::memory_order_release);
  if (impl_->only_lower && *runtime::Runtime::get().options().log_compiles) {
    logging::info("[jit] compiled {}, which lower() had lowered before: {}", name(),
                  impl_->report.to_string());
  }
}

Cost Computation::cost() const {
  const pjrt::MemoryStats memory = impl_->planned                     ? impl_->planned->memory
                                   : impl_->launcher && is_compiled() ? impl_->launcher->memory_stats()
                                                                      : pjrt::MemoryStats();
  Cost cost{lowered().counted.flops, lowered().counted.bytes_accessed, 0, memory.arguments, memory.outputs,
            memory.temporary};
  for (const auto& line : text().collectives) cost.communicated_bytes += line.total_bytes();
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
  LoweredComputation& made = impl->lowered;
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
  made.name = program.name;
  made.text.program = to_string(program);
  made.inputs.assign(arguments.begin(), arguments.end());
  made.moved.resize(arguments.size());
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
    if (!(target == type.sharding)) made.moved[i] = intern(type.aval, target, true);
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
  if (mesh.size() > 1) program = transforms::early_pads(std::move(program), mesh.axis_env());
  program = transforms::direct_slices(std::move(program));
  std::vector<Aval> out_avals = program.output_avals();
  sharding::Partitioned partitioned =
      mesh.size() > 1 ? sharding::partition(program, partitioning)
                      : sharding::Partitioned{program, std::vector<PartitionSpec>(out_avals.size())};
  warn_once(partitioned.warnings, program.name, mesh);
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    Sharding where =
        partitioning.out_specs[i] ? *option(options.out_shardings, i) : over_mesh(partitioned.out_specs[i]);
    made.outputs.push_back(intern(out_avals[i], where, committed));
  }
  made.donated = options.donated;
  made.donated.resize(arguments.size());
  std::string salt = "outputs";
  for (const ArrayTypeRef& type : made.outputs) salt += " " + type->sharding.spec().to_string();
  for (bool donated : made.donated) salt += donated ? "d" : "-";
  salt += to_string(options.compiler_options);
  impl->partitioning = since(start);
  made.mesh.emplace(mesh);
  return finish(std::move(impl), partitioned.program, combine(mesh.fingerprint(), fingerprint(salt)),
                {options.combine_threshold_bytes, partitioned.kept_gathered_bytes},
                options.overlap_threshold_bytes);
}

std::shared_ptr<const Computation> Computation::compile_per_device(
    ir::Program program, std::span<const ArrayType* const> arguments, const Mesh& mesh, const Mesh& local,
    const std::vector<PartitionSpec>& in_specs, const std::vector<PartitionSpec>& out_specs) {
  const NamedScopeReset unnamed;
  auto impl = std::make_unique<Impl>();
  LoweredComputation& made = impl->lowered;
  impl->check =
      ResultCheck::add_to(program, [types = std::vector<ArrayTypeRef>(arguments.begin(), arguments.end()),
                                    mesh, local, in_specs](ir::Program search) {
        const std::vector<const ArrayType*> same(types.begin(), types.end());
        return compile_per_device(std::move(search), same, mesh, local, in_specs, {PartitionSpec()});
      });
  made.name = program.name;
  made.text.program = to_string(program);
  made.inputs.assign(arguments.begin(), arguments.end());
  made.moved.resize(arguments.size());
  made.donated.resize(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Sharding there = NamedSharding(local, in_specs[i]);
    if (arguments[i]->sharding == there) continue;
    made.moved[i] = intern(arguments[i]->aval, there, true);
  }
  const std::vector<Aval> out_avals = program.output_avals();
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    const PartitionSpec spec = i < out_specs.size() ? out_specs[i] : PartitionSpec();  // the check's
    Aval aval = out_avals[i];
    for (std::size_t d = 0; d < spec.entries().size(); ++d) {
      aval.shape[d] *= local.axis_env().size(spec.axes(d));
    }
    aval.varying.clear();
    made.outputs.push_back(intern(std::move(aval), NamedSharding(local, spec), true));
  }
  program = transforms::direct_slices(transforms::eliminate_dead_code(std::move(program)));
  made.mesh.emplace(mesh);
  return finish(std::move(impl), program, mesh.fingerprint());
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

}  // namespace

std::shared_ptr<const Computation> Computation::finish(std::unique_ptr<Impl> impl, const ir::Program& written,
                                                       Fingerprint salt, sharding::CombineOptions combining,
                                                       std::optional<std::int64_t> overlap_threshold_bytes) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  const auto start = std::chrono::steady_clock::now();
  LoweredComputation& made = impl->lowered;
  const Mesh& mesh = *made.mesh;
  const ir::AxisEnv axes = mesh.axis_env();
  impl->note_inputs();
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
  made.text.partitioned = sharding::describe(per_device, axes);
  made.text.collectives = sharding::communication(per_device, axes);
  made.counted = cost_of(per_device);
  made.native_collectives = runtime.native_collectives() && mesh.size() > 1;
  if (!runtime.native_collectives()) per_device = transforms::select_edges(std::move(per_device), axes);
  ir::LowerOptions options = {.axes = axes,
                              .donated = impl->check ? std::vector<bool>(made.donated.size()) : made.donated,
                              .native_collectives = made.native_collectives,
                              .for_cpu = !runtime.native_collectives(),
                              .salt = salt};
  std::span<const pjrt::Device* const> devices;
  if (!runtime.described()) devices = runtime.client().addressable_devices();
  runtime.platform().set_lowering(options, devices);
  ir::LoweredProgram program = lower(per_device, options);
  ir::for_each_equation(per_device, [&](const ir::Equation& equation) {
    const bool is_callback =
        equation.primitive == &ir::pure_callback_p() || equation.primitive == &ir::io_callback_p();
    if (is_callback) impl->callbacks.push_back(equation.params);
    if (is_callback || equation.primitive == &ir::debug_p())
      impl->calls_here = fmt::format("{} (at {})", equation.primitive->name, equation.site.to_string());
    if (equation.primitive == &ir::ffi_call_p())
      made.ffi_targets.push_back(equation.params.as<ir::FfiCallParams>().target);
  });
  made.signature = signature_text(per_device);
  if (mesh.devices().front().memory_bytes() > 0) made.largest = ir::largest_values(per_device);
  made.fingerprint = program.fingerprint;
  made.takes_position = program.takes_position;
  made.traits = program.traits;
  made.collectives = program.collectives;
  if (runtime.described()) {
    impl->lowering = since(start);
    if (!impl->is_operation)
      impl->planned = plan_computation(made.name, per_device, program, mesh, made.text.collectives,
                                       impl->compiler_options);
    made.text.stablehlo = std::move(program.stablehlo);
    impl->is_compiled = true;
    return std::shared_ptr<const Computation>(new Computation(std::move(impl)));
  }
  if (!impl->compiler_options.empty()) program.only_collectives.reset();
  impl->launcher.emplace(made, std::move(program.only_collectives));
  if (impl->is_operation) made.collectives.clear();
  impl->lowering = since(start);
  made.text.stablehlo = std::move(program.stablehlo);
  // A program for all devices at once cannot be compiled where none of them is.
  impl->to_compile = !made.native_collectives || impl->launcher->num_devices() > 0;
  if (impl->launcher->only_collectives()) impl->report.from = runtime::CompileReport::From::kNowhere;
  impl->is_compiled = !impl->to_compile || impl->launcher->only_collectives();
  std::shared_ptr<const Computation> computation(new Computation(std::move(impl)));
  if (!computation->impl_->only_lower) computation->ensure_compiled();
  return computation;
}

void Computation::Impl::note_inputs() {
  moves = std::ranges::any_of(lowered.moved, [](const ArrayTypeRef& there) { return there != nullptr; });
  donates = std::ranges::find(lowered.donated, true) != lowered.donated.end();
}

std::string Computation::machine_code() const {
  const std::string what = fmt::format("[serialize] {} cannot be used in another process: it", name());
  if (!impl_->calls_here.empty()) fail("{} calls {}", what, impl_->calls_here);
  if (impl_->check) fail("{} checks its results; turn off debug_nans and debug_infs", what);
  const std::optional<Launcher>& launcher = impl_->launcher;
  if (launcher && launcher->only_collectives()) compile_lowered();
  if (launcher && is_compiled() && launcher->executable() != nullptr)
    return runtime::machine_code(*launcher->executable(), lowered().program(), impl_->compiler_options);
  if (impl_->planned != nullptr && impl_->planned->program != nullptr)
    return impl_->planned->program->serialize();
  const bool does_not_fit = impl_->planned != nullptr && !impl_->planned->does_not_fit.empty();
  fail("[serialize] {} has no machine code: {}", name(),
       does_not_fit ? impl_->planned->does_not_fit : "none of its devices belongs to this process");
}

std::shared_ptr<const Computation> Computation::load(LoweredComputation lowered, std::string_view code) {
  auto impl = std::make_unique<Impl>();
  impl->lowered = std::move(lowered);
  impl->note_inputs();
  impl->launcher.emplace(impl->lowered);
  const auto start = std::chrono::steady_clock::now();
  if (impl->launcher->num_devices() > 0)
    impl->launcher->set_executable(runtime::load_code(impl->lowered.program(), *impl->lowered.mesh, code));
  impl->report = {.from = runtime::CompileReport::From::kFile, .time = since(start)};
  impl->is_compiled = true;
  return std::shared_ptr<const Computation>(new Computation(std::move(impl)));
}

}  // namespace lockstep::internal
