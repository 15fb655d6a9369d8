#include "lockstep/transforms/transpose.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/transforms/flow.h"

namespace lockstep::transforms {

Transposition::Transposition(Builder& builder, const Program& program, const std::vector<bool>& linear_inputs,
                             std::span<const Value> known)
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
  for (const Equation& equation : program.equations) {
    if (linear(equation)) continue;
    CallSiteScope site(equation.site);
    std::vector<Value> results =
        builder.emit(*equation.primitive, equation.params, env_.all(equation.inputs));
    for (std::size_t i = 0; i < results.size(); ++i) env_.set(equation.outputs[i], results[i]);
  }
}

bool Transposition::linear(const Equation& equation) const {
  return std::ranges::any_of(equation.inputs, [this](Var var) { return linear(var); });
}

void Transposition::add(Var var, const Value& cotangent) {
  std::optional<Value>& sum = cotangents_[static_cast<std::size_t>(var)];
  sum = sum ? lax::add(*sum, cotangent) : cotangent;
}

Tangents Transposition::run(std::span<const std::optional<Value>> cotangents) {
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    if (cotangents[i] && linear(program_.outputs[i])) add(program_.outputs[i], *cotangents[i]);
  }
  for (std::size_t i = program_.equations.size(); i-- > 0;) {
    if (linear(program_.equations[i])) transpose(program_.equations[i]);
  }
  Tangents out;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    if (linear_inputs_[i]) out.push_back(cotangents_[static_cast<std::size_t>(program_.inputs[i])]);
  }
  return out;
}

void Transposition::transpose(const Equation& equation) {
  Tangents cotangents;
  for (Var var : equation.outputs) cotangents.push_back(cotangents_[static_cast<std::size_t>(var)]);
  if (std::ranges::none_of(cotangents, [](const auto& ct) { return ct.has_value(); })) return;
  std::vector<TransposeOperand> operands;
  for (Var var : equation.inputs) {
    TransposeOperand& operand = operands.emplace_back(TransposeOperand{program_.aval(var), {}});
    if (!linear(var)) operand.value = env_[var];
  }
  std::vector<Aval> results;
  for (Var var : equation.outputs) results.push_back(program_.aval(var));

  CallSiteScope site(equation.site);
  const Primitive& primitive = *equation.primitive;
  Tangents out = primitive.transpose(TransposeCall{equation.params, cotangents, operands, results, builder_});
  if (out.size() != operands.size()) {
    fail("[{}] its transpose gave {} cotangents for {} operands: this is an error of Lockstep's own",
         primitive.name, out.size(), operands.size());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (out[i] && operands[i].linear())
      add(equation.inputs[i], conform(*out[i], operands[i].aval, primitive));
  }
}

}  // namespace lockstep::transforms
