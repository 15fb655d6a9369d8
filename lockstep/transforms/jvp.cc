// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/jvp.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

JvpValues inline_jvp(Builder& builder, const Program& program, std::span<const Value> inputs,
                     std::span<const std::optional<Value>> input_tangents, bool linearize) {
  Bindings env("jvp", program, inputs);
  Tangents tangents(program.variables.size());
  auto tangent_of = [&](Var var) -> std::optional<Value>& { return tangents[static_cast<std::size_t>(var)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) tangent_of(program.inputs[i]) = input_tangents[i];

  for (const Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    const Primitive& primitive = *equation.primitive;
    std::vector<Value> operands = env.all(equation.inputs);
    Tangents given;
    for (Var var : equation.inputs) given.push_back(tangent_of(var));
    const bool any = std::ranges::any_of(given, [](const auto& tangent) { return tangent.has_value(); });
    std::vector<Value> results;
    Tangents out;
    if (any && primitive.nested) {
      JvpValues both =
          primitive.nested->jvp(NestedJvpCall{equation.params, operands, given, builder, linearize});
      results = std::move(both.outputs);
      out = std::move(both.tangents);
    } else {
      results = builder.emit(primitive, equation.params, operands);
      if (any) out = primitive.jvp(JvpCall{equation.params, operands, given, results});
    }
    for (std::size_t i = 0; i < results.size(); ++i) env.set(equation.outputs[i], results[i]);
    if (!any) continue;
    if (out.size() != results.size()) {
      fail_internally("[{}] its derivative rule gave {} tangents for {} results", primitive.name, out.size(),
                      results.size());
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Aval& aval = results[i].aval();
      if (out[i] && is_inexact(aval.dtype)) {
        tangent_of(equation.outputs[i]) = conform(*out[i], Aval(aval), primitive);
      }
    }
  }

  JvpValues values{env.all(program.outputs), {}};
  for (Var var : program.outputs) values.tangents.push_back(tangent_of(var));
  return values;
}

Program jvp(const Program& program, const std::vector<bool>& wrt) {
  check_differentiable("jvp", program, wrt);
  Builder builder(program.name);
  std::vector<Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  Tangents tangents(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (wrt[i]) tangents[i] = builder.input(Aval(inputs[i].aval()));
  }
  JvpValues values = inline_jvp(builder, program, inputs, tangents);
  std::vector<Value> outputs = values.outputs;
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    const Aval aval = values.outputs[i].aval();
    if (is_inexact(aval.dtype)) outputs.push_back(made_explicit(builder, values.tangents[i], aval));
  }
  return eliminate_dead_code(builder.finish(outputs));
}

}  // namespace lockstep::transforms
