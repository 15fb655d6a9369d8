#include "lockstep/transforms/vjp.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {
namespace {

/// A program and its derivative, forwards, with the equations told apart: those that depend on tangents are
/// linear in them, the others know nothing of them.
struct Linearized {
  Program program;  ///< inputs: values, then tangents; outputs: values, then tangents that are not zero
  std::vector<bool> is_linear;    ///< of each variable: whether it depends on a tangent
  std::vector<bool> has_tangent;  ///< of each output of the program that is differentiated

  bool linear(Var var) const { return is_linear[static_cast<std::size_t>(var)]; }
  bool linear(const Equation& equation) const {
    return std::ranges::any_of(equation.inputs, [this](Var var) { return linear(var); });
  }
};

Linearized linearize(const Program& program, const std::vector<bool>& wrt) {
  Builder builder(program.name);
  std::vector<Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  Tangents tangents(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (wrt[i]) tangents[i] = builder.input(Aval(inputs[i].aval()));
  }
  JvpValues values = inline_jvp(builder, program, inputs, tangents);

  Linearized out;
  std::vector<Value> outputs = values.outputs;
  for (const auto& tangent : values.tangents) {
    out.has_tangent.push_back(tangent.has_value());
    if (tangent) outputs.push_back(*tangent);
  }
  out.program = eliminate_dead_code(builder.finish(outputs));
  out.is_linear.resize(out.program.variables.size());
  for (std::size_t i = inputs.size(); i < out.program.inputs.size(); ++i) {
    out.is_linear[static_cast<std::size_t>(out.program.inputs[i])] = true;
  }
  for (const Equation& equation : out.program.equations) {
    if (!out.linear(equation)) continue;
    for (Var var : equation.outputs) out.is_linear[static_cast<std::size_t>(var)] = true;
  }
  return out;
}

/// Goes backwards through the linear equations of a linearized program, and adds up what flows to each
/// variable.
class Transposer {
 public:
  Transposer(Builder& builder, const Linearized& linearized, const Bindings& env)
      : builder_(builder), linearized_(linearized), env_(env), cotangents_(env_size()) {}

  void add(Var var, const Value& cotangent) {
    std::optional<Value>& sum = cotangents_[static_cast<std::size_t>(var)];
    sum = sum ? lax::add(*sum, cotangent) : cotangent;
  }

  const std::optional<Value>& of(Var var) const { return cotangents_[static_cast<std::size_t>(var)]; }

  void run() {
    const auto& equations = linearized_.program.equations;
    for (std::size_t i = equations.size(); i-- > 0;) {
      if (linearized_.linear(equations[i])) transpose(equations[i]);
    }
  }

 private:
  std::size_t env_size() const { return linearized_.program.variables.size(); }

  void transpose(const Equation& equation) {
    Tangents cotangents;
    for (Var var : equation.outputs) cotangents.push_back(of(var));
    if (std::ranges::none_of(cotangents, [](const auto& ct) { return ct.has_value(); })) return;
    std::vector<TransposeOperand> operands;
    for (Var var : equation.inputs) {
      TransposeOperand& operand = operands.emplace_back(TransposeOperand{linearized_.program.aval(var), {}});
      if (!linearized_.linear(var)) operand.value = env_[var];
    }
    std::vector<Aval> results;
    for (Var var : equation.outputs) results.push_back(linearized_.program.aval(var));

    CallSiteScope site(equation.site);
    const Primitive& primitive = *equation.primitive;
    Tangents out =
        primitive.transpose(TransposeCall{equation.params, cotangents, operands, results, builder_});
    if (out.size() != operands.size()) {
      fail("[{}] its transpose gave {} cotangents for {} operands: this is an error of Lockstep's own",
           primitive.name, out.size(), operands.size());
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (out[i] && operands[i].linear())
        add(equation.inputs[i], conform(*out[i], operands[i].aval, primitive));
    }
  }

  Builder& builder_;
  const Linearized& linearized_;
  const Bindings& env_;
  Tangents cotangents_;
};

}  // namespace

Program vjp(const Program& program, const std::vector<bool>& wrt) {
  check_differentiable("vjp", program, wrt);
  const Linearized linearized = linearize(program, wrt);
  const Program& both = linearized.program;
  const std::size_t num_inputs = program.inputs.size(), num_outputs = program.outputs.size();

  Builder builder(program.name);
  std::vector<Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  std::vector<std::optional<Value>> seeds(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) {
    const Aval& aval = both.aval(both.outputs[i]);
    if (is_inexact(aval.dtype)) seeds[i] = builder.input(aval);
  }

  Bindings env(both);
  for (std::size_t i = 0; i < num_inputs; ++i) env.set(both.inputs[i], inputs[i]);
  for (const Equation& equation : both.equations) {
    if (linearized.linear(equation)) continue;
    CallSiteScope site(equation.site);
    std::vector<Value> results = builder.emit(*equation.primitive, equation.params, env.all(equation.inputs));
    for (std::size_t i = 0; i < results.size(); ++i) env.set(equation.outputs[i], results[i]);
  }

  Transposer transposer(builder, linearized, env);
  std::size_t next_tangent = num_outputs;
  for (std::size_t i = 0; i < num_outputs; ++i) {
    if (!linearized.has_tangent[i]) continue;
    Var tangent = both.outputs[next_tangent++];
    if (linearized.linear(tangent)) transposer.add(tangent, *seeds[i]);
  }
  transposer.run();

  std::vector<Value> outputs;
  for (std::size_t i = 0; i < num_outputs; ++i) outputs.push_back(env[both.outputs[i]]);
  std::size_t next_input = num_inputs;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (!wrt[i]) continue;
    outputs.push_back(
        made_explicit(builder, transposer.of(both.inputs[next_input++]), Aval(inputs[i].aval())));
  }
  return eliminate_dead_code(builder.finish(outputs));
}

}  // namespace lockstep::transforms
