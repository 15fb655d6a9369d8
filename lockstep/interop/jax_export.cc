// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/jax_export.h"

#include <algorithm>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/interop/bytecode.h"
#include "lockstep/interop/bytes.h"
#include "lockstep/interop/exported.h"
#include "lockstep/interop/translate.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/jit.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/placement.h"

namespace lockstep {
namespace {

using interop::Exported;
using interop::ExportedSharding;
using interop::ExportedValue;
using MeshAxes = std::vector<std::pair<std::string, std::int64_t>>;

std::string text_of(const MeshAxes& axes) {
  std::string text;
  for (const auto& [name, size] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return text;
}

/// The mesh that most shardings are over; of no axes where none says one.
MeshAxes axes_of(const Exported& exported) {
  for (const auto* values : {&exported.inputs, &exported.outputs})
    for (const ExportedValue& value : *values)
      if (value.sharding && !value.sharding->mesh.empty()) return value.sharding->mesh;
  return {};
}

/// The spec in the names of `mesh`. Throws ShardingError where its axes have other sizes.
PartitionSpec spec_over(const Mesh& mesh, const MeshAxes& axes,
                        const std::vector<std::vector<std::string>>& splits, const std::string& function) {
  const bool split =
      std::ranges::any_of(splits, [](const std::vector<std::string>& entry) { return !entry.empty(); });
  if (!split) return PartitionSpec();
  Shape sizes;
  for (const auto& [name, size] : axes) sizes.push_back(size);
  if (sizes != mesh.shape()) {
    fail<ShardingError>(
        "[import_jax_export] '{}' was exported for a mesh of {}, but is called on {}; make one with axes of "
        "these sizes, in this order",
        function, text_of(axes), mesh.to_string());
  }
  std::vector<std::vector<std::string>> entries;
  for (const std::vector<std::string>& split : splits) {
    std::vector<std::string>& entry = entries.emplace_back();
    for (const std::string& name : split) {
      const auto at = std::ranges::find(axes, name, &MeshAxes::value_type::first);
      if (at == axes.end()) interop::fail_damaged("a sharding names an axis that its mesh has not");
      entry.push_back(mesh.axis_names()[static_cast<std::size_t>(at - axes.begin())]);
    }
  }
  return PartitionSpec::from_entries(std::move(entries));
}

std::vector<std::optional<Sharding>> shardings_over(const Mesh& mesh,
                                                    const std::vector<ExportedValue>& values,
                                                    const std::string& function) {
  std::vector<std::optional<Sharding>> all;
  for (const ExportedValue& value : values) {
    if (!value.sharding)
      all.emplace_back();
    else
      all.emplace_back(
          NamedSharding(mesh, spec_over(mesh, value.sharding->mesh, value.sharding->splits, function)));
  }
  return all;
}

/// The function of one Exported, without its derivative: what is called in traces.
class Imported {
 public:
  Imported(std::shared_ptr<const Exported> exported, const std::optional<Mesh>& mesh)
      : exported_(std::move(exported)), mesh_(mesh), module_(interop::read_bytecode(exported_->module)) {
    check_module_version();
    if (mesh_) {
      inputs_ = shardings_over(*mesh_, exported_->inputs, exported_->name);
      outputs_ = shardings_over(*mesh_, exported_->outputs, exported_->name);
    }
    const std::string platform = runtime::Runtime::get().platform().name();
    const auto found = std::ranges::find(exported_->platforms, platform);
    if (found != exported_->platforms.end()) {
      platform_index_ = static_cast<int>(found - exported_->platforms.begin());
    } else if (!exported_->any_platform) {
      std::string all;
      for (const std::string& each : exported_->platforms) all += (all.empty() ? "" : ", ") + each;
      fail<Error>(
          "[import_jax_export] '{}' was exported for {}, but runs on {} here; export it with "
          "platforms=['{}']",
          exported_->name, all, platform, platform);
    }
  }

  std::vector<Array> operator()(const std::vector<Array>& arguments) const {
    std::vector<Array> kept;
    for (const std::size_t i : exported_->kept) kept.push_back(placed(arguments[i], inputs_, i));
    std::vector<Array> results = interop::run_module(
        module_, kept, platform_index_,
        [this](const Array& x, const std::vector<std::string>& names, const std::vector<std::int64_t>& sizes,
               const std::vector<std::vector<std::string>>& splits,
               const std::vector<bool>& open) { return constrained(x, names, sizes, splits, open); });
    if (results.size() != exported_->outputs.size())
      interop::fail_damaged("main gives another number of results");
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = placed(results[i], outputs_, i);
    return results;
  }

 private:
  /// "StableHLO_v1.15.0".
  void check_module_version() const {
    if (module_.producer.starts_with("StableHLO_v1.") || module_.producer.starts_with("StableHLO_v0."))
      return;
    fail<Error>("[import_jax_export] the module of '{}' is of '{}'; expected StableHLO of version 1",
                exported_->name, module_.producer);
  }

  static Array placed(const Array& x, const std::vector<std::optional<Sharding>>& shardings, std::size_t i) {
    if (i >= shardings.size() || !shardings[i]) return x;
    return ir::lax::sharding_constraint(x, sharding::placement(shardings[i]->mesh(), shardings[i]->spec()));
  }

  Array constrained(const Array& x, const std::vector<std::string>& names,
                    const std::vector<std::int64_t>& sizes,
                    const std::vector<std::vector<std::string>>& splits,
                    const std::vector<bool>& open) const {
    if (!mesh_) return x;
    MeshAxes axes;
    for (std::size_t i = 0; i < names.size(); ++i) axes.emplace_back(names[i], sizes[i]);
    ir::PlacementParams placement =
        sharding::placement(*mesh_, spec_over(*mesh_, axes, splits, exported_->name));
    std::vector<std::int64_t> unconstrained;
    for (std::size_t d = 0; d < splits.size(); ++d)
      if (open[d] && splits[d].empty()) unconstrained.push_back(static_cast<std::int64_t>(d));
    if (static_cast<std::int64_t>(unconstrained.size()) == x.ndim() && x.ndim() > 0) return x;
    if (!unconstrained.empty()) placement.unconstrained = std::move(unconstrained);
    return ir::lax::sharding_constraint(x, std::move(placement));
  }

  std::shared_ptr<const Exported> exported_;
  std::optional<Mesh> mesh_;
  interop::Module module_;
  std::vector<std::optional<Sharding>> inputs_, outputs_;
  int platform_index_ = 0;
};

Array zeros(const Aval& aval) {
  return ir::lax::full(Array(), is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0), aval.dtype,
                       aval.shape);
}

std::vector<Array> joined(std::vector<Array> a, const std::vector<Array>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The function with the derivative that was exported with it, and that one's, as far as there are any.
ExportedFunction::Function with_derivative(const std::shared_ptr<const Exported>& exported,
                                           const std::optional<Mesh>& mesh) {
  const auto primal = std::make_shared<const Imported>(exported, mesh);
  const auto function = [primal](const std::vector<Array>& arguments) { return (*primal)(arguments); };
  if (exported->vjp == nullptr) {
    const auto none =
        [exported](const std::vector<Array>&) -> std::pair<std::vector<Array>, std::vector<Array>> {
      fail<TraceError>(
          "[import_jax_export] '{}' is differentiated (at {}), but has no derivative of this order; export "
          "it with serialize(vjp_order=1), or higher",
          exported->name, CallSiteScope::current().to_string());
    };
    const auto never = [](const std::vector<Array>& residuals, const std::vector<Array>&) {
      return residuals;
    };
    return custom_vjp(function, none, never);
  }
  const Exported& vjp = *exported->vjp;
  if (vjp.inputs.size() != exported->inputs.size() + exported->outputs.size() ||
      vjp.outputs.size() != exported->inputs.size())
    interop::fail_damaged("the derivative takes other arrays than the function");
  const auto backward_function = with_derivative(exported->vjp, mesh);
  const auto forward = [primal](const std::vector<Array>& arguments) {
    return std::pair<std::vector<Array>, std::vector<Array>>((*primal)(arguments), arguments);
  };
  const auto backward = [backward_function, held = exported->vjp, inputs = exported->inputs](
                            const std::vector<Array>& arguments, const std::vector<Array>& cotangents) {
    std::vector<Array> all = joined(arguments, cotangents);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (held->inputs[i].is_float0) all[i] = zeros(held->inputs[i].aval);
    std::vector<Array> gradients = backward_function(all);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (held->outputs[i].is_float0) gradients[i] = zeros(inputs[i].aval);
    return gradients;
  };
  return custom_vjp(function, forward, backward);
}

ExportedFunction made(const std::shared_ptr<const Exported>& exported, const std::optional<Mesh>& mesh,
                      const std::source_location& where) {
  JitOptions options;
  options.name = exported->name;
  const auto jitted = jit([function = with_derivative(exported, mesh)](
                              const std::vector<Array>& arguments) { return function(arguments); },
                          options, where);
  return ExportedFunction(exported,
                          [jitted](const std::vector<Array>& arguments) { return jitted(arguments); });
}

std::vector<ShapeDtype> avals_of(const std::vector<ExportedValue>& values) {
  std::vector<ShapeDtype> all;
  for (const ExportedValue& value : values) all.push_back({value.path, value.aval.shape, value.aval.dtype});
  return all;
}

}  // namespace

std::vector<Array> ExportedFunction::operator()(const std::vector<Array>& arguments,
                                                std::source_location where) const {
  const CallSiteScope scope(CallSite::from(where));
  const std::vector<ExportedValue>& inputs = exported_->inputs;
  const std::string site = CallSiteScope::current().to_string();
  if (arguments.size() != inputs.size()) {
    fail<Error>("[{}] expected {} arrays, got {} (at {}); give those of in_avals(), in their order",
                exported_->name, inputs.size(), arguments.size(), site);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Aval &wanted = inputs[i].aval, &given = arguments[i].aval();
    const auto text = [](const Aval& aval) { return to_string(Aval{aval.dtype, aval.shape}); };
    if (given.shape != wanted.shape) {
      fail<ShapeError>("[{}] expected argument {} as {}, got {} (at {}); it was exported for this shape only",
                       exported_->name, inputs[i].path, text(wanted), text(given), site);
    }
    if (given.dtype != wanted.dtype) {
      fail<DTypeError>("[{}] expected argument {} as {}, got {} (at {}); convert it with astype",
                       exported_->name, inputs[i].path, text(wanted), text(given), site);
    }
  }
  return function_(arguments);
}

const std::string& JaxExport::function_name() const { return exported_->name; }
std::int64_t JaxExport::nr_devices() const { return exported_->num_devices; }
MeshAxes JaxExport::mesh_axes() const { return axes_of(*exported_); }
const std::vector<std::string>& JaxExport::platforms() const { return exported_->platforms; }
bool JaxExport::has_vjp() const { return exported_->vjp != nullptr; }
std::vector<ShapeDtype> JaxExport::in_avals() const { return avals_of(exported_->inputs); }
std::vector<ShapeDtype> JaxExport::out_avals() const { return avals_of(exported_->outputs); }

std::vector<std::optional<Sharding>> JaxExport::in_shardings(const Mesh& mesh) const {
  return shardings_over(mesh, exported_->inputs, exported_->name);
}

std::vector<std::optional<Sharding>> JaxExport::out_shardings(const Mesh& mesh) const {
  return shardings_over(mesh, exported_->outputs, exported_->name);
}

ExportedFunction JaxExport::on(const Mesh& mesh, std::source_location where) const {
  const CallSiteScope scope(CallSite::from(where));
  if (mesh.size() != nr_devices()) {
    fail<ShardingError>("[import_jax_export] '{}' was exported for {} devices{}, but {} has {} (at {})",
                        function_name(), nr_devices(),
                        mesh_axes().empty() ? "" : fmt::format(" ({})", text_of(mesh_axes())),
                        mesh.to_string(), mesh.size(), CallSiteScope::current().to_string());
  }
  return made(exported_, mesh, where);
}

ExportedFunction JaxExport::on(std::source_location where) const {
  const CallSiteScope scope(CallSite::from(where));
  if (nr_devices() != 1) {
    fail<ShardingError>("[import_jax_export] '{}' was exported for {} devices ({}); give their mesh (at {})",
                        function_name(), nr_devices(), text_of(mesh_axes()),
                        CallSiteScope::current().to_string());
  }
  return made(exported_, std::nullopt, where);
}

JaxExport import_jax_export(std::string_view bytes) { return JaxExport(interop::read_exported(bytes)); }

}  // namespace lockstep
