// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/rewriter.h"

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitive.h"

namespace lockstep::ir {
namespace {

/// The equation with the programs that the pass makes of those that it holds; none if these stay the same.
std::optional<Equation> with_held_rewritten(const Equation& equation, const Rewriter::Pass& pass) {
  bool changed = false;
  std::vector<std::shared_ptr<const Program>> programs;
  for (const NestedProgram& held : programs_of(equation)) {
    std::optional<Program> written = pass(*held.program);
    changed = changed || written;
    programs.push_back(written ? std::make_shared<const Program>(std::move(*written)) : held.program);
  }
  if (!changed) return std::nullopt;
  Equation result = equation;
  result.params = equation.primitive->nested->with_programs(equation.params, std::move(programs));
  return result;
}

}  // namespace

Rewriter::Rewriter(const Program& program, Pass within)
    : program_(program), within_(std::move(within)), builder_(program.name) {}

void Rewriter::keep(std::size_t equation) {
  const Equation& kept = program_.equations[equation];
  const std::optional<Equation> changed = within_ ? with_held_rewritten(kept, within_) : std::nullopt;
  if (!changed && !is_begun_ && equation == num_same_)
    ++num_same_;
  else
    keep_as(changed ? *changed : kept);
}

void Rewriter::keep_as(const Equation& equation) {
  begin();
  std::vector<Aval> results;
  for (Var var : equation.outputs) results.push_back(program_.aval(var));
  const std::vector<Value> outputs = builder_.write(equation, values(equation.inputs), std::move(results));
  for (std::size_t i = 0; i < outputs.size(); ++i) replace(equation.outputs[i], outputs[i]);
}

Value Rewriter::add(Equation equation, std::span<const Value> inputs, Aval result) {
  begin();
  return builder_.write(std::move(equation), inputs, {std::move(result)}).front();
}

void Rewriter::replace(Var var, const Value& value) {
  begin();
  values_[static_cast<std::size_t>(var)] = value;
}

Value Rewriter::operator[](Var var) {
  begin();
  const std::optional<Value>& value = values_[static_cast<std::size_t>(var)];
  if (!value) fail_internally("a pass over {} uses a variable that it has not written yet", program_.name);
  return *value;
}

Builder& Rewriter::builder() {
  begin();
  return builder_;
}

std::optional<Program> Rewriter::finish() {
  std::size_t defined = program_.inputs.size();
  for (const Equation& equation : program_.equations) defined += equation.outputs.size();
  const bool is_same = num_same_ == program_.equations.size() && defined == program_.variables.size();
  if (!is_begun_ && is_same) return std::nullopt;
  Program result = builder().finish(values(program_.outputs));
  result.axes = program_.axes;
  return result;
}

void Rewriter::begin() {
  if (std::exchange(is_begun_, true)) return;
  values_.resize(program_.variables.size());
  for (Var var : program_.inputs) replace(var, builder_.input(program_.aval(var)));
  for (std::size_t e = 0; e < num_same_; ++e) keep_as(program_.equations[e]);
}

std::vector<Value> Rewriter::values(std::span<const Var> vars) {
  std::vector<Value> all;
  all.reserve(vars.size());
  for (Var var : vars) all.push_back((*this)[var]);
  return all;
}

Program rewritten(Program program, const Rewriter::Pass& pass) {
  std::optional<Program> result = pass(program);
  return result ? std::move(*result) : std::move(program);
}

}  // namespace lockstep::ir
