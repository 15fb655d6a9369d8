#include "lockstep/transforms/vmap.h"

#include <algorithm>
#include <memory>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/replay.h"
#include "lockstep/transforms/vmap_collectives.h"

namespace lockstep::transforms {
namespace {

/// The batching rule on these operands, with its results checked.
VmapValues batch(const Equation& equation, std::span<const Value> operands, std::span<const bool> batched,
                 const MappedAxis& axis, Builder& builder) {
  const BatchCall call{equation.params, operands, batched, axis.size, axis, builder};
  VmapValues values;
  if (equation.primitive->nested) {
    values = equation.primitive->nested->batching(call);
  } else {
    values.outputs = equation.primitive->batching(call);
    values.batched.assign(values.outputs.size(), true);
  }
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    const Value& result = values.outputs[i];
    if (!values.batched[i]) continue;
    if (result.aval().shape.empty() || result.aval().shape.front() != axis.size) {
      fail("[{}] its batching rule gave {} for a mapped dimension of {}: this is an error of Lockstep's own",
           equation.primitive->name, to_string(result.aval()), axis.size);
    }
  }
  return values;
}

}  // namespace

VmapValues inline_vmap(Builder& builder, const Program& program, std::span<const Value> inputs,
                       const std::vector<bool>& in_batched, const MappedAxis& axis) {
  check_flags("vmap", program, in_batched);
  Bindings env("vmap", program, inputs);
  std::vector<bool> batched(program.variables.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    batched[static_cast<std::size_t>(program.inputs[i])] = in_batched[i];
  }
  for (const Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    const std::size_t n = equation.inputs.size();
    auto flags = std::make_unique<bool[]>(n);
    for (std::size_t i = 0; i < n; ++i) flags[i] = batched[static_cast<std::size_t>(equation.inputs[i])];
    const std::span<const bool> which(flags.get(), n);
    const bool any = std::ranges::find(which, true) != which.end();
    const std::vector<Value> operands = env.all(equation.inputs);
    if (names_axis(equation, axis.name)) {
      auto [result, result_batched] = collective_over_examples(equation, operands, which, axis, builder);
      env.set(equation.outputs[0], result);
      batched[static_cast<std::size_t>(equation.outputs[0])] = result_batched;
      continue;
    }
    VmapValues results;
    if (any || holds_collective(equation, axis.name)) {
      results = batch(equation, operands, which, axis, builder);
    } else {
      results.outputs = builder.emit(*equation.primitive, equation.params, operands);
      results.batched.resize(results.outputs.size());
    }
    for (std::size_t i = 0; i < results.outputs.size(); ++i) {
      env.set(equation.outputs[i], results.outputs[i]);
      batched[static_cast<std::size_t>(equation.outputs[i])] = results.batched[i];
    }
  }
  VmapValues values{env.all(program.outputs), {}};
  for (Var var : program.outputs) values.batched.push_back(batched[static_cast<std::size_t>(var)]);
  return values;
}

Program vmap(const Program& program, const std::vector<bool>& in_batched, const MappedAxis& axis) {
  check_flags("vmap", program, in_batched);
  Builder builder(program.name);
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    Aval aval = program.aval(program.inputs[i]);
    if (in_batched[i]) aval.shape = rules::prepended(axis.size, std::move(aval.shape));
    inputs.push_back(builder.input(std::move(aval)));
  }
  VmapValues values = inline_vmap(builder, program, inputs, in_batched, axis);
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    if (!values.batched[i]) values.outputs[i] = rules::broadcast_leading(values.outputs[i], axis.size);
  }
  return eliminate_dead_code(builder.finish(values.outputs));
}

}  // namespace lockstep::transforms
