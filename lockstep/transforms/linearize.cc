// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/linearize.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/flow.h"
#include "lockstep/transforms/jvp.h"

namespace lockstep::transforms {
namespace {

std::size_t at(ir::Var var) { return static_cast<std::size_t>(var); }

/// An equation that contains programs and computes both tangents and the values to which they belong cannot
/// be transposed.
void check_not_mixed(const ir::Program& program, const std::vector<bool>& is_linear) {
  for (const ir::Equation& equation : program.equations) {
    if (!equation.primitive->nested) continue;
    if (std::ranges::none_of(equation.inputs, [&](ir::Var var) { return is_linear[at(var)]; })) continue;
    if (std::ranges::all_of(equation.outputs, [&](ir::Var var) { return is_linear[at(var)]; })) continue;
    if (equation.primitive->name == "while") {
      fail<TraceError>(
          "[while_loop] has no reverse derivative, because its number of steps is unknown (at {}); use scan, "
          "or fori_loop with bounds that are C++ numbers, or take the forward derivative with jvp or jacfwd",
          equation.site.to_string());
    }
    fail<TraceError>(
        "[{}] a derivative rule computes primal values and their tangents in one {} (at {}), which cannot be "
        "transposed; compute them in two, or write the rule with custom_vjp",
        equation.primitive->name, equation.primitive->name, equation.site.to_string());
  }
}

}  // namespace

Linearized linearize(const ir::Program& program, const std::vector<bool>& wrt, std::size_t num_outputs) {
  ir::Builder builder(program.name);
  std::vector<ir::Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  Linearized out;
  out.linear_inputs.resize(inputs.size());
  ir::Tangents tangents(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!wrt[i]) continue;
    tangents[i] = builder.input(Aval(inputs[i].aval()));
    out.linear_inputs.push_back(true);
  }
  ir::JvpValues values = inline_jvp(builder, program, inputs, tangents, true);
  std::vector<ir::Value> outputs = values.outputs;
  for (std::size_t i = 0; i < values.tangents.size(); ++i) {
    out.has_tangent.push_back(i < num_outputs && values.tangents[i].has_value());
    if (out.has_tangent[i]) outputs.push_back(*values.tangents[i]);
  }
  out.program = eliminate_dead_code(builder.finish(outputs));
  check_not_mixed(out.program, reached(out.program, out.linear_inputs, Flow::kValues));
  return out;
}

SplitDerivative split_derivative(const ir::Program& program, const std::vector<bool>& wrt,
                                 const std::vector<bool>& available, const std::vector<bool>& recomputed,
                                 const EquationFilter& saved) {
  Linearized linearized = linearize(program, wrt);
  const ir::Program& both = linearized.program;
  const std::size_t num_inputs = program.inputs.size(), num_outputs = program.outputs.size();
  const std::vector<bool> is_linear = reached(both, linearized.linear_inputs, Flow::kValues);
  std::vector<bool> elsewhere(both.inputs.size());  // inputs from which nothing is recomputed
  for (std::size_t i = 0; i < num_inputs; ++i) elsewhere[i] = !recomputed[i];
  const std::vector<bool> fixed = reached(both, elsewhere, Flow::kValues);

  std::vector<bool> at_hand(both.variables.size());
  std::vector<ir::Var> known_inputs(both.inputs.begin(),
                                    both.inputs.begin() + static_cast<std::ptrdiff_t>(num_inputs));
  std::vector<ir::Var> linear_inputs;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (!available[i]) continue;
    at_hand[at(both.inputs[i])] = true;
    linear_inputs.push_back(both.inputs[i]);
  }
  std::vector<bool> needed(both.variables.size()), known_equations, linear_equations(both.equations.size());
  std::vector<ir::Var> tangents(both.outputs.begin() + static_cast<std::ptrdiff_t>(num_outputs),
                                both.outputs.end());
  for (ir::Var var : tangents) needed[at(var)] = true;
  for (std::size_t i = both.equations.size(); i-- > 0;) {
    const ir::Equation& equation = both.equations[i];
    const bool is_needed =
        std::ranges::any_of(equation.outputs, [&](ir::Var var) { return needed[at(var)]; });
    const bool linear = std::ranges::any_of(equation.inputs, [&](ir::Var var) { return is_linear[at(var)]; });
    const bool again = !linear && !(saved && saved(equation)) &&
                       (equation.primitive == &ir::broadcast_in_dim_p() ||
                        std::ranges::none_of(equation.inputs, [&](ir::Var var) { return fixed[at(var)]; }));
    if (!is_needed || !(linear || again)) continue;
    linear_equations[i] = true;
    for (ir::Var var : equation.outputs) at_hand[at(var)] = true;
    for (ir::Var var : equation.inputs) needed[at(var)] = true;
  }
  for (const ir::Equation& equation : both.equations) {
    known_equations.push_back(
        std::ranges::none_of(equation.inputs, [&](ir::Var var) { return is_linear[at(var)]; }));
  }
  std::vector<ir::Var> known_outputs(both.outputs.begin(),
                                     both.outputs.begin() + static_cast<std::ptrdiff_t>(num_outputs));
  SplitDerivative out;
  for (std::size_t v = 0; v < needed.size(); ++v) {
    if (!needed[v] || at_hand[v] || is_linear[v]) continue;
    known_outputs.push_back(static_cast<ir::Var>(v));
    linear_inputs.push_back(static_cast<ir::Var>(v));
    ++out.num_residuals;
    const auto input =
        std::find(both.inputs.begin(), both.inputs.begin() + static_cast<std::ptrdiff_t>(num_inputs),
                  static_cast<ir::Var>(v)) -
        both.inputs.begin();
    const auto i = static_cast<std::size_t>(input);
    out.residual_inputs.push_back(i < num_inputs ? std::optional(i) : std::nullopt);
  }
  linear_inputs.insert(linear_inputs.end(), both.inputs.begin() + static_cast<std::ptrdiff_t>(num_inputs),
                       both.inputs.end());
  out.known = part_of(both, std::move(known_inputs), std::move(known_outputs), known_equations);
  out.linear = part_of(both, std::move(linear_inputs), std::move(tangents), linear_equations);
  out.has_tangent = std::move(linearized.has_tangent);
  return out;
}

}  // namespace lockstep::transforms
