// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/pmap.h"

#include <algorithm>
#include <chrono>

#include "lockstep/array/data.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/jit/call_cache.h"
#include "lockstep/jit/jit_cache.h"
#include "lockstep/jit/pmap_axis.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/jit/tree_option.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::internal {

class PmapCache {
 public:
  PmapCache(PmapOptions options, const CallSite& site);

  const PmapOptions& options() const { return options_; }
  const CallSite& site() const { return calls_.site(); }

  /// Calls the function, as described at pmap.
  CallResult call(const TreeFunction& function, std::span<TreeArgument> arguments);

 private:
  friend class PmapTrace;
  std::shared_ptr<const CallEntry> trace(const TreeFunction& function,
                                         std::span<const TreeArgument> arguments);

  /// The mapped dimension of each array of argument i. A number is never mapped.
  std::vector<std::optional<int>> in_axes(std::span<const TreeArgument> arguments, std::size_t i) const;

  const PmapOptions options_;
  CallCache calls_;
};

namespace {

/// The mesh of a pmap's devices, and that of this process's devices among them, with one axis. Throws
/// ShardingError if this process has none. In a job of one process, `rows` below the number of devices are
/// for the first devices.
Mesh pmap_mesh(const PmapOptions& options, std::optional<std::int64_t> rows, const CallSite& site) {
  CallSiteScope scope(site);
  auto mesh_of = [&](std::vector<Device> devices) {
    const auto count = static_cast<std::int64_t>(devices.size());
    return Mesh(std::move(devices), {count}, {options.axis_name});
  };
  const Mesh all =
      options.devices.empty() ? make_mesh({{options.axis_name, device_count()}}) : mesh_of(options.devices);
  if (process_count() > 1 || !rows || *rows < 1 || *rows >= all.size()) return all;
  const auto& devices = all.devices();
  return mesh_of({devices.begin(), devices.begin() + *rows});
}

Mesh local_part(const Mesh& mesh, const CallSite& site) {
  std::vector<Device> local;
  for (Device device : mesh.devices()) {
    if (device.process_index() == process_index()) local.push_back(device);
  }
  if (local.empty()) {
    fail<ShardingError>(
        "[pmap] process {} of {} has none of the {} devices (at {}); only processes that have one call it",
        process_index(), process_count(), mesh.size(), site.to_string());
  }
  const auto count = static_cast<std::int64_t>(local.size());
  return Mesh(std::move(local), {count}, mesh.axis_names());
}

/// How many rows the first mapped array has; none if no array is mapped, or has that dimension.
std::optional<std::int64_t> mapped_rows(const std::vector<tree::AnyTree>& arguments,
                                        const std::vector<std::optional<int>>& axes) {
  std::optional<std::int64_t> rows;
  std::size_t k = 0;
  for (const tree::AnyTree& argument : arguments) {
    argument->for_each_leaf([&](const Array& array) {
      const std::optional<int> axis = axes[k++];
      if (!rows && axis && *axis >= 0 && *axis < array.aval().rank())
        rows = array.shape()[static_cast<std::size_t>(*axis)];
    });
  }
  return rows;
}

/// The type that one device gets of an argument with this dimension mapped over `devices` local devices.
/// Throws ShardingError if the dimension has another size.
Aval device_aval(const Aval& aval, std::optional<int> mapped, const std::string& axis, std::int64_t devices,
                 const CallSite& site) {
  Aval part = aval;
  if (!mapped) return part;
  part.weak_type = false;
  if (*mapped < 0 || *mapped >= aval.rank() || aval.shape[static_cast<std::size_t>(*mapped)] != devices) {
    fail<ShardingError>(
        "[pmap] expected arrays with {} of {}, the number of local devices, got {} (at {}); map another "
        "dimension with in_axes, reshape it to have a row for each device, or use jit over a mesh",
        *mapped == 0 ? "a leading dimension" : fmt::format("a dimension {}", *mapped), devices,
        to_string(aval), site.to_string());
  }
  part.shape[static_cast<std::size_t>(*mapped)] = 1;
  part.varying = {axis};
  return part;
}

/// The spec over the local devices of a value with this dimension mapped.
PartitionSpec mapped_spec(std::optional<int> mapped, const std::string& axis) {
  if (!mapped) return PartitionSpec();
  std::vector<std::vector<std::string>> entries(static_cast<std::size_t>(*mapped) + 1);
  entries.back() = {axis};
  return PartitionSpec::from_entries(std::move(entries));
}

/// Takes away (adds) the mapped dimension, of size 1, that a device's part of an argument (a result) has.
Array without_mapped(const Array& array, std::optional<int> mapped) {
  if (!mapped) return array;
  Shape shape = array.shape();
  shape.erase(shape.begin() + *mapped);
  return ir::lax::reshape(array, shape);
}

Array with_mapped(const Array& array, std::optional<int> mapped, const CallSite& site) {
  if (!mapped) return array;
  Shape shape = array.shape();
  if (*mapped < 0 || *mapped > static_cast<int>(shape.size())) {
    fail<ShardingError>("[pmap] out_axes has {}, but a result is {} (at {})", *mapped,
                        to_string(array.aval()), site.to_string());
  }
  shape.insert(shape.begin() + *mapped, 1);
  return ir::lax::reshape(array, shape);
}

/// Whether the equation may make values that differ between the devices of ones that do not.
bool makes_differ(const ir::Equation& equation) {
  const auto programs = ir::programs_of(equation);
  if (programs.empty()) {
    return equation.primitive->sets_varying && equation.primitive != &ir::pvary_p();
  }
  return std::ranges::any_of(programs, [](const ir::NestedProgram& nested) {
    return std::ranges::any_of(nested.program->equations, makes_differ);
  });
}

/// Whether each output differs between the devices. The avals do not say it where a derivative was taken of
/// each device's own copy.
std::vector<bool> differing_outputs(const ir::Program& program) {
  std::vector<bool> differs(program.variables.size());
  auto at = [&](ir::Var var) { return differs[static_cast<std::size_t>(var)]; };
  for (ir::Var input : program.inputs)
    differs[static_cast<std::size_t>(input)] = !program.aval(input).varying.empty();
  for (const ir::Equation& equation : program.equations) {
    const bool any = makes_differ(equation) || std::ranges::any_of(equation.inputs, at);
    for (ir::Var output : equation.outputs)
      differs[static_cast<std::size_t>(output)] = any && !program.aval(output).varying.empty();
  }
  std::vector<bool> results;
  for (ir::Var output : program.outputs) results.push_back(at(output));
  return results;
}

void check_outside_of_traces(const CallSite& site) {
  if (Trace::current() == nullptr) return;
  fail<TraceError>("[pmap] called within a traced function (at {}): call it outside, or use jit over a mesh",
                   site.to_string());
}

}  // namespace

/// One trace of a pmapped function on a device: first the inputs, then, in the same order, the arguments for
/// the function, then the results' arrays. Throws ShardingError if a mapped dimension has another size than
/// the number of local devices, if the number of axes is not that of arguments or results, and if a result
/// without a mapped dimension differs between devices.
class PmapTrace {
 public:
  PmapTrace(PmapCache& cache, std::optional<std::int64_t> rows);

  /// For an array of an argument.
  Array input(const Array& array, std::optional<int> mapped);

  /// Compiles it.
  std::shared_ptr<const CallEntry> finish(const Signature& signature, tree::AnyTree result);

 private:
  PmapCache& cache_;
  const Mesh mesh_, local_;
  std::vector<PartitionSpec> in_specs_;
  NumberInputs numbers_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<ir::AxisEnvScope> axes_;
  std::optional<PmapAxis> axis_;
  std::optional<Trace> trace_;
};

PmapTrace::PmapTrace(PmapCache& cache, std::optional<std::int64_t> rows)
    : cache_(cache),
      mesh_(pmap_mesh(cache.options(), rows, cache.site())),
      local_(local_part(mesh_, cache.site())) {
  axes_.emplace(mesh_.axis_env());
  axis_.emplace(cache.options().axis_name);
  trace_.emplace(cache.calls_.name());
}

std::vector<std::optional<int>> PmapCache::in_axes(std::span<const TreeArgument> arguments,
                                                   std::size_t i) const {
  const TreeArgument& argument = arguments[i];
  const TreeOption option{"pmap", "in_axes", "argument", site().to_string()};
  const auto axes = option.values_or<ShardingError>(options_.in_axes, i, argument.ref(), arguments.size(),
                                                    std::optional<int>(0));
  return argument.is_number() ? std::vector<std::optional<int>>(axes.size()) : axes;
}

Array PmapTrace::input(const Array& array, std::optional<int> mapped) {
  const std::string& axis = cache_.options().axis_name;
  in_specs_.push_back(mapped_spec(mapped, axis));
  Array tracer = trace_->input(device_aval(array.aval(), mapped, axis, local_.size(), cache_.site()));
  if (!mapped) numbers_.add(tracer, in_specs_.size() - 1);
  return tracer;
}

std::shared_ptr<const CallEntry> PmapTrace::finish(const Signature& signature, tree::AnyTree result) {
  const PmapOptions& options = cache_.options();
  const CallSite& site = cache_.site();
  const std::size_t count = result->num_elements();
  const TreeOption option{"pmap", "out_axes", "result", site.to_string()};
  std::vector<PartitionSpec> out_specs;
  std::vector<Array> outputs;
  std::vector<bool> is_mapped;
  for (std::size_t i = 0; i < count; ++i) {
    const tree::TreeRef element = result->element(i);
    const auto axes =
        option.values_or<ShardingError>(options.out_axes, i, element, count, std::optional<int>(0));
    std::size_t k = 0;
    element.for_each_leaf([&](const Array& array) {
      const std::optional<int> mapped = axes[k++];
      out_specs.push_back(mapped_spec(mapped, options.axis_name));
      is_mapped.push_back(mapped.has_value());
      outputs.push_back(with_mapped(array, mapped, site));
    });
  }
  ir::Program program = trace_->finish(outputs);
  const std::vector<bool> differs = differing_outputs(program);
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (is_mapped[i] || !differs[i]) continue;
    fail<ShardingError>(
        "[pmap] a result ({}) differs between the devices along '{}', but its out_axes entry is none (at "
        "{}); give a dimension, or reduce it with psum or pmean",
        to_string(program.aval(program.outputs[i])), options.axis_name, site.to_string());
  }
  std::vector<Array> captures = trace_->captures();
  trace_.reset();
  axis_.reset();
  axes_.reset();
  const auto tracing = std::chrono::steady_clock::now() - start_;

  CallSiteScope scope(site);
  std::vector<const ArrayType*> types;
  for (const Array* array : signature.leaves()) types.push_back(concrete(*array, "[pmap] an argument:").type);
  for (const Array& array : captures) {
    types.push_back(concrete(array, "[pmap] an array from outside:").type);
    in_specs_.push_back(PartitionSpec());
    if (array.is_fully_addressable() || array.is_fully_replicated()) continue;
    fail<ShardingError>(
        "[pmap] the function (at {}) uses an array from outside, {}, that is also on other processes; make "
        "it replicated first, with out_shardings or multihost::process_allgather",
        site.to_string(), array.to_string());
  }
  auto computation =
      Computation::compile_per_device(std::move(program), types, mesh_, local_, in_specs_, out_specs);
  NumberInputs::Places doubles = numbers_.places(captures);
  return cache_.calls_.add(signature, std::move(computation), std::move(captures), std::move(doubles),
                           exemplar_of(std::move(result)), tracing);
}

PmapCache::PmapCache(PmapOptions options, const CallSite& site)
    : options_(std::move(options)), calls_("pmap", "pmap@" + site.to_string(), site) {}

CallResult PmapCache::call(const TreeFunction& function, std::span<TreeArgument> arguments) {
  check_outside_of_traces(site());
  SpareSignature signature;
  signature->result(*function.result);
  for (TreeArgument& argument : arguments) {
    if (argument.is_number()) argument.make_array();
    signature->argument(argument.ref());
  }
  std::shared_ptr<const CallEntry> entry = calls_.find(*signature);
  if (entry == nullptr) entry = trace(function, arguments);
  std::vector<Array> results = entry->run(signature->leaves(), site());
  return {std::move(entry), std::move(results)};
}

std::shared_ptr<const CallEntry> PmapCache::trace(const TreeFunction& function,
                                                  std::span<const TreeArgument> arguments) {
  Signature signature(/*described=*/true);
  signature.result(*function.result);
  for (const TreeArgument& argument : arguments) signature.argument(argument.ref());
  const watch::Doing tracing(watch::Kind::kTrace, "a function under pmap");
  const NamedScopeReset unnamed;  // it serves all callers
  std::vector<tree::AnyTree> tracers;
  std::vector<std::optional<int>> axes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    tracers.push_back(tree::AnyTree::copy_of(arguments[i].ref()));
    const auto these = in_axes(arguments, i);
    axes.insert(axes.end(), these.begin(), these.end());
  }
  PmapTrace trace(*this, mapped_rows(tracers, axes));
  std::size_t k = 0;
  for (const tree::AnyTree& tracer : tracers)
    tracer->change_leaves([&](Array& array) { array = trace.input(array, axes[k++]); });
  k = 0;
  for (const tree::AnyTree& tracer : tracers)
    tracer->change_leaves([&](Array& array) { array = without_mapped(array, axes[k++]); });
  return trace.finish(signature, function(tracers));
}

std::shared_ptr<PmapCache> make_pmap_cache(PmapOptions options, const CallSite& site) {
  return std::make_shared<PmapCache>(std::move(options), site);
}

CallResult call_pmapped(PmapCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments) {
  return cache.call(function, arguments);
}

}  // namespace lockstep::internal
