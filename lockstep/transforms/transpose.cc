// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/transpose.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/transforms/flow.h"

namespace lockstep::transforms {

Transposition::Transposition(ir::Builder& builder, const ir::Program& program,
                             const std::vector<bool>& linear_inputs, std::span<const ir::Value> known)
    : builder_(builder),
      program_(program),
      linear_inputs_(linear_inputs),
      is_linear_(reached(program, linear_inputs, Flow::kValues)),
      env_(program),
      cotangents_(program.variables.size()) {
  auto next = known.begin();
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (!linear_inputs[i]) env_.set(program.inputs[i], *next++);
  }
  for (const ir::Equation& equation : program.equations) {
    if (linear(equation)) continue;
    CallSiteScope site(equation.site);
    std::vector<ir::Value> results =
        builder.emit(*equation.primitive, equation.params, env_.all(equation.inputs));
    for (std::size_t i = 0; i < results.size(); ++i) env_.set(equation.outputs[i], results[i]);
  }
}

bool Transposition::linear(const ir::Equation& equation) const {
  return std::ranges::any_of(equation.inputs, [this](ir::Var var) { return linear(var); });
}

void Transposition::add(ir::Var var, const ir::Value& cotangent) {
  Cotangent& so_far = cotangents_[static_cast<std::size_t>(var)];
  const Aval& aval = program_.aval(var);
  if (ir::minus(cotangent.aval().varying, aval.varying).empty()) {
    const ir::Value whole = ir::lax::vary_over(cotangent, aval.varying);
    so_far.sum = so_far.sum ? ir::lax::add(*so_far.sum, whole) : whole;
    return;
  }
  if (so_far.partial && so_far.partial->aval().varying != cotangent.aval().varying) so_far.sum = settled(var);
  so_far.partial = so_far.partial ? ir::lax::add(*so_far.partial, cotangent) : cotangent;
  so_far.site = CallSiteScope::current();
}

/// The whole cotangent, with the partial part summed over the devices.
std::optional<ir::Value> Transposition::settled(ir::Var var) {
  Cotangent& so_far = cotangents_[static_cast<std::size_t>(var)];
  if (so_far.partial) {
    CallSiteScope site(so_far.site);
    const ir::Value partial = *std::exchange(so_far.partial, std::nullopt);
    add(var, ir::lax::psum(partial, ir::minus(partial.aval().varying, program_.aval(var).varying)));
  }
  return so_far.sum;
}

/// Whether the result's cotangent is summed over the devices only after the equation: that is possible if
/// each device does the same with its own one, and useful if the operands are not larger.
bool Transposition::waits(const ir::Equation& equation) const {
  const ir::Primitive& primitive = *equation.primitive;
  if (equation.outputs.size() != 1 || primitive.sets_varying || ir::is_placement(primitive)) return false;
  const Cotangent& result = cotangents_[static_cast<std::size_t>(equation.outputs[0])];
  if (result.sum || !result.partial) return false;
  std::int64_t bytes = 0;
  for (ir::Var var : equation.inputs) {
    if (linear(var)) bytes += program_.aval(var).bytes();
  }
  return bytes <= program_.aval(equation.outputs[0]).bytes();
}

ir::Tangents Transposition::run(std::span<const std::optional<ir::Value>> cotangents,
                                const std::vector<bool>& partial) {
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    if (cotangents[i] && linear(program_.outputs[i])) add(program_.outputs[i], *cotangents[i]);
  }
  for (std::size_t i = program_.equations.size(); i-- > 0;) {
    if (linear(program_.equations[i])) transpose(program_.equations[i]);
  }
  ir::Tangents out;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    if (!linear_inputs_[i]) continue;
    const Cotangent& cotangent = cotangents_[static_cast<std::size_t>(program_.inputs[i])];
    const bool as_is = !partial.empty() && partial[i] && !cotangent.sum;
    out.push_back(as_is ? cotangent.partial : settled(program_.inputs[i]));
  }
  return out;
}

void Transposition::transpose(const ir::Equation& equation) {
  CallSiteScope site(equation.site);
  ir::Tangents cotangents;
  std::vector<Aval> results;
  const bool partial = waits(equation);
  for (ir::Var var : equation.outputs) {
    Aval& aval = results.emplace_back(program_.aval(var));
    cotangents.push_back(partial ? cotangents_[static_cast<std::size_t>(var)].partial : settled(var));
    if (partial) aval.varying = cotangents.back()->aval().varying;
  }
  if (std::ranges::none_of(cotangents, [](const auto& ct) { return ct.has_value(); })) return;
  std::vector<ir::TransposeOperand> operands;
  for (ir::Var var : equation.inputs) {
    ir::TransposeOperand& operand = operands.emplace_back(ir::TransposeOperand{program_.aval(var), {}});
    if (!linear(var)) operand.value = env_[var];
  }

  const ir::Primitive& primitive = *equation.primitive;
  ir::Tangents out =
      primitive.transpose(ir::TransposeCall{equation.params, cotangents, operands, results, builder_});
  if (out.size() != operands.size()) {
    fail_internally("[{}] its transpose gave {} cotangents for {} operands", primitive.name, out.size(),
                    operands.size());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!out[i] || !operands[i].linear()) continue;
    Aval aval = operands[i].aval;
    aval.varying = ir::both(aval.varying, out[i]->aval().varying);
    add(equation.inputs[i], conform(*out[i], aval, primitive));
  }
}

}  // namespace lockstep::transforms
