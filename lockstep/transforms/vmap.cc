// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/vmap.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/replay.h"
#include "lockstep/transforms/vmap_collectives.h"

namespace lockstep::transforms {
namespace {

/// The batching rule on these operands, with its results checked.
ir::VmapValues batch(const ir::Equation& equation, std::span<const ir::Value> operands,
                     std::span<const bool> batched, const ir::MappedAxis& axis, ir::Builder& builder) {
  const ir::BatchCall call{equation.params, operands, batched, axis.size, axis, builder};
  ir::VmapValues values;
  if (equation.primitive->nested) {
    values = equation.primitive->nested->batching(call);
  } else {
    values.outputs = equation.primitive->batching(call);
    values.batched.assign(values.outputs.size(), true);
  }
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    const ir::Value& result = values.outputs[i];
    if (!values.batched[i]) continue;
    const bool any_size = ir::is_placement(*equation.primitive);
    if (result.aval().shape.empty() || (result.aval().shape.front() != axis.size && !any_size)) {
      fail_internally("[{}] its batching rule gave {} for a mapped dimension of {}", equation.primitive->name,
                      to_string(result.aval()), axis.size);
    }
  }
  return values;
}

/// The mapped axis in each region of the program: under shard_map, where placements split the examples over
/// devices, each device has fewer examples.
class Regions {
 public:
  Regions(const ir::Program& program, const ir::MappedAxis& axis)
      : all_{axis}, of_(program.variables.size(), nullptr) {}

  const ir::MappedAxis& outer() const { return all_.front(); }
  bool batched(ir::Var var) const { return of_[at(var)] != nullptr; }
  void set(ir::Var var, const ir::MappedAxis* region) { of_[at(var)] = region; }

  /// The axis of the equation's batched operands; the outer one if there are none.
  const ir::MappedAxis& of(const ir::Equation& equation) const {
    const ir::MappedAxis* found = nullptr;
    for (ir::Var var : equation.inputs) {
      const ir::MappedAxis* region = of_[at(var)];
      if (region == nullptr || region == found) continue;
      if (found != nullptr) {
        fail<TraceError>(
            "[{}] the examples of vmap are split over devices in one operand, but not in another (at {}); "
            "pass what the function under shard_map uses to it as an argument",
            equation.primitive->name, equation.site.to_string());
      }
      found = region;
    }
    return found == nullptr ? outer() : *found;
  }

  /// Where a placement leads from a region.
  const ir::MappedAxis& behind(const ir::Equation& placement, const ir::MappedAxis& from,
                               const ir::Value& result) {
    if (from.spmd_axes.empty() && from.varying.empty()) return from;
    ir::MappedAxis to = from;
    to.size = result.aval().shape.front();
    const std::vector<std::string> split = ir::examples_axes(placement, from);
    if (placement.primitive == &ir::to_local_p()) to.varying = ir::both(from.varying, split);
    if (placement.primitive == &ir::to_global_p()) to.varying = ir::minus(from.varying, split);
    for (const ir::MappedAxis& known : all_) {
      if (known.size == to.size && known.varying == to.varying) return known;
    }
    return all_.emplace_back(std::move(to));
  }

 private:
  static std::size_t at(ir::Var var) { return static_cast<std::size_t>(var); }

  std::deque<ir::MappedAxis> all_;
  std::vector<const ir::MappedAxis*> of_;  // of each variable; none where it is the same for all examples
};

}  // namespace

ir::VmapValues inline_vmap(ir::Builder& builder, const ir::Program& program,
                           std::span<const ir::Value> inputs, const std::vector<bool>& in_batched,
                           const ir::MappedAxis& axis) {
  check_flags("vmap", program, in_batched);
  Bindings env("vmap", program, inputs);
  Regions regions(program, axis);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_batched[i]) regions.set(program.inputs[i], &regions.outer());
  }
  for (const ir::Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    const std::size_t n = equation.inputs.size();
    auto flags = std::make_unique<bool[]>(n);
    for (std::size_t i = 0; i < n; ++i) flags[i] = regions.batched(equation.inputs[i]);
    const std::span<const bool> which(flags.get(), n);
    const bool any = std::ranges::find(which, true) != which.end();
    const std::vector<ir::Value> operands = env.all(equation.inputs);
    const ir::MappedAxis& region = regions.of(equation);
    const bool collective = names_axis(equation, axis.name);
    const bool holds = !collective && holds_collective(equation, axis.name);
    if ((collective || holds) && &region != &regions.outer()) {
      fail<TraceError>(
          "[{}] is over vmap's axis '{}', whose examples are split over devices by its spmd_axis_name (at "
          "{}); do it outside of shard_map, or over the mesh axis",
          equation.primitive->name, axis.name, equation.site.to_string());
    }
    ir::VmapValues results;
    if (collective) {
      auto [result, batched] = collective_over_examples(equation, operands, which, region, builder);
      results = {{result}, {batched}};
    } else if (any || holds) {
      results = batch(equation, operands, which, region, builder);
    } else {
      results.outputs = builder.emit(*equation.primitive, equation.params, operands);
      results.batched.resize(results.outputs.size());
    }
    for (std::size_t i = 0; i < results.outputs.size(); ++i) {
      env.set(equation.outputs[i], results.outputs[i]);
      if (!results.batched[i]) continue;
      const bool placement = ir::is_placement(*equation.primitive);
      regions.set(equation.outputs[i],
                  placement ? &regions.behind(equation, region, results.outputs[i]) : &region);
    }
  }
  ir::VmapValues values{env.all(program.outputs), {}};
  for (ir::Var var : program.outputs) values.batched.push_back(regions.batched(var));
  return values;
}

ir::Program vmap(const ir::Program& program, const std::vector<bool>& in_batched,
                 const ir::MappedAxis& axis) {
  check_flags("vmap", program, in_batched);
  ir::Builder builder(program.name);
  std::vector<ir::Value> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    Aval aval = program.aval(program.inputs[i]);
    inputs.push_back(builder.input(in_batched[i] ? stacked(std::move(aval), axis) : std::move(aval)));
  }
  ir::VmapValues values = inline_vmap(builder, program, inputs, in_batched, axis);
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    if (!values.batched[i]) values.outputs[i] = ir::rules::broadcast_leading(values.outputs[i], axis.size);
  }
  return eliminate_dead_code(builder.finish(values.outputs));
}

}  // namespace lockstep::transforms
