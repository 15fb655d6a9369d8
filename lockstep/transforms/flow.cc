// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/flow.h"

#include <algorithm>

#include "lockstep/program/uses.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;

bool any(const Flags& flags) { return std::ranges::find(flags, true) != flags.end(); }

}  // namespace

std::vector<bool> reached(const ir::Program& program, const std::vector<bool>& inputs, Flow flow) {
  Flags flags(program.variables.size());
  auto flag = [&](ir::Var var) { return flags[static_cast<std::size_t>(var)]; };
  auto set = [&](ir::Var var) {
    flags[static_cast<std::size_t>(var)] =
        flow == Flow::kValues || is_inexact(program.variables[static_cast<std::size_t>(var)].dtype);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) set(program.inputs[i]);
  }
  for (const ir::Equation& equation : program.equations) {
    Flags operands;
    for (ir::Var var : equation.inputs) operands.push_back(flag(var));
    if (!any(operands)) continue;
    Flags results(equation.outputs.size(), true);
    if (equation.primitive->nested) {
      results =
          nested_flow(*equation.primitive, equation.params, operands, equation.outputs.size(), flow).results;
    } else if (flow == Flow::kTangents && equation.primitive->jvp.is_zero()) {
      continue;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i]) set(equation.outputs[i]);
    }
  }
  return flags;
}

NestedFlow nested_flow(const ir::Primitive& primitive, const ir::OpParams& params,
                       const std::vector<bool>& operands, std::size_t num_results, Flow flow) {
  const std::vector<ir::NestedProgram> programs = primitive.nested->programs(params);
  const std::vector<ir::NestedLink> links = primitive.nested->links(params);
  NestedFlow out{{}, Flags(num_results)};
  if (flow == Flow::kTangents && primitive.nested->own_derivative) {
    for (const ir::NestedProgram& nested : programs) out.inputs.emplace_back(nested.program->inputs.size());
    out.results.assign(num_results, any(operands));
    return out;
  }
  std::vector<Flags> outputs;
  for (const ir::NestedProgram& nested : programs) {
    out.inputs.emplace_back(nested.program->inputs.size());
    outputs.emplace_back(nested.program->outputs.size());
  }
  bool chosen = false;
  if (flow == Flow::kValues) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      chosen = chosen || (operands[i] && ir::decides(links, ir::NestedLink::kEquation, i));
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const ir::NestedLink& link : links) {
      const bool from_operand = link.from_program == ir::NestedLink::kEquation;
      const bool from = from_operand
                            ? operands[link.from]
                            : chosen || outputs[static_cast<std::size_t>(link.from_program)][link.from];
      if (!from) continue;
      Flags& target = link.to_program == ir::NestedLink::kEquation
                          ? out.results
                          : out.inputs[static_cast<std::size_t>(link.to_program)];
      if (!target[link.to]) target[link.to] = changed = true;
    }
    if (!changed) break;
    std::vector<Flags> starts;  // outputs that are the next values of a reached carry
    for (const Flags& flags : outputs) starts.emplace_back(flags.size());
    for (const ir::NestedLink& link : links) {
      if (link.from_program == ir::NestedLink::kEquation || link.from_program != link.to_program) continue;
      const auto p = static_cast<std::size_t>(link.from_program);
      if (out.inputs[p][link.to]) starts[p][link.from] = true;
    }
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const ir::Program& program = *programs[p].program;
      const Flags flags = reached(program, out.inputs[p], flow);
      for (std::size_t k = 0; k < program.outputs.size(); ++k) {
        // A loop without steps returns its initial carry, whatever a step would do.
        outputs[p][k] = flags[static_cast<std::size_t>(program.outputs[k])] || starts[p][k];
        chosen =
            chosen || (flow == Flow::kValues && outputs[p][k] && ir::decides(links, static_cast<int>(p), k));
      }
    }
  }
  return out;
}

}  // namespace lockstep::transforms
