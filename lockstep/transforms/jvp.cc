// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/jvp.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

ir::JvpValues inline_jvp(ir::Builder& builder, const ir::Program& program, std::span<const ir::Value> inputs,
                         std::span<const std::optional<ir::Value>> input_tangents, bool linearize) {
  Bindings env("jvp", program, inputs);
  ir::Tangents tangents(program.variables.size());
  auto tangent_of = [&](ir::Var var) -> std::optional<ir::Value>& {
    return tangents[static_cast<std::size_t>(var)];
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) tangent_of(program.inputs[i]) = input_tangents[i];

  for (const ir::Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    const ir::Primitive& primitive = *equation.primitive;
    std::vector<ir::Value> operands = env.all(equation.inputs);
    ir::Tangents given;
    for (ir::Var var : equation.inputs) given.push_back(tangent_of(var));
    const bool any = std::ranges::any_of(given, [](const auto& tangent) { return tangent.has_value(); });
    std::vector<ir::Value> results;
    ir::Tangents out;
    if (any && primitive.nested) {
      ir::JvpValues both =
          primitive.nested->jvp(ir::NestedJvpCall{equation.params, operands, given, builder, linearize});
      results = std::move(both.outputs);
      out = std::move(both.tangents);
    } else {
      results = builder.emit(primitive, equation.params, operands);
      if (any) out = primitive.jvp(ir::JvpCall{equation.params, operands, given, results});
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

  ir::JvpValues values{env.all(program.outputs), {}};
  for (ir::Var var : program.outputs) values.tangents.push_back(tangent_of(var));
  return values;
}

ir::Program jvp(const ir::Program& program, const std::vector<bool>& wrt) {
  check_differentiable("jvp", program, wrt);
  ir::Builder builder(program.name);
  std::vector<ir::Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  ir::Tangents tangents(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (wrt[i]) tangents[i] = builder.input(Aval(inputs[i].aval()));
  }
  ir::JvpValues values = inline_jvp(builder, program, inputs, tangents);
  std::vector<ir::Value> outputs = values.outputs;
  for (std::size_t i = 0; i < values.outputs.size(); ++i) {
    const Aval aval = values.outputs[i].aval();
    if (is_inexact(aval.dtype)) outputs.push_back(made_explicit(builder, values.tangents[i], aval));
  }
  return eliminate_dead_code(builder.finish(outputs));
}

}  // namespace lockstep::transforms
