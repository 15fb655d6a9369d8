// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/program.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/operation_scope.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"

namespace lockstep::ir {
namespace {

std::vector<Aval> avals_of(const Program& program, const std::vector<Var>& vars) {
  std::vector<Aval> avals;
  avals.reserve(vars.size());
  for (Var var : vars) avals.push_back(program.aval(var));
  return avals;
}

/// Throws ShapeError if the array has more bytes than an i64 can count.
void check_bytes(const Aval& aval) {
  auto bytes = static_cast<std::int64_t>(size_of(aval.dtype));
  bool fits = true;
  for (std::int64_t size : aval.shape) fits = !__builtin_mul_overflow(bytes, size, &bytes) && fits;
  if (!fits && std::ranges::find(aval.shape, 0) == aval.shape.end())
    fail<ShapeError>("the result {} would have more than 2^63 bytes", to_string(aval));
}

/// "a" to "z", "aa" and so on.
std::string letters(int index) {
  std::string text;
  for (int rest = index; rest >= 0; rest = rest / 26 - 1)
    text.insert(text.begin(), static_cast<char>('a' + rest % 26));
  return text;
}

std::string operands_text(std::span<const Aval> avals) {
  std::string text;
  for (const Aval& aval : avals) text += (text.empty() ? "" : ", ") + to_string(aval);
  return text.empty() ? "no operands" : text;
}

template <class E>
[[noreturn]] void rethrow_with_place(const Primitive& primitive, const E& error, std::span<const Aval> avals,
                                     const CallSite& site) {
  const std::string_view operation = OperationScope::current();
  throw E(fmt::format("[{}] {} (operands: {}; at {})", operation.empty() ? primitive.name : operation,
                      error.what(), operands_text(avals), site.to_string()));
}

}  // namespace

std::vector<Aval> Program::input_avals() const { return avals_of(*this, inputs); }
std::vector<Aval> Program::output_avals() const { return avals_of(*this, outputs); }

std::string to_string(const Program& program) {
  std::vector<std::string> names(program.variables.size());
  int next = 0;
  auto define = [&](Var var) {
    std::string& name = names[static_cast<std::size_t>(var)];
    name = letters(next++);
    return fmt::format("{}:{}", name, to_string(program.aval(var)));
  };
  std::string text = fmt::format("{}(", program.name);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    text += (i == 0 ? "" : ", ") + define(program.inputs[i]);
  text += ")\n";
  for (const Equation& equation : program.equations) {
    text += " ";
    for (Var var : equation.outputs) text += " " + define(var);
    text += fmt::format(" = {}", equation.primitive->name);
    if (!equation.params.text().empty()) text += fmt::format("[{}]", equation.params.text());
    for (Var var : equation.inputs) text += " " + names[static_cast<std::size_t>(var)];
    if (const std::string_view scopes = named_scope_of(equation.site); !scopes.empty())
      text += fmt::format("  # {}", scopes);
    text += "\n";
  }
  text += "  return";
  for (Var var : program.outputs) text += " " + names[static_cast<std::size_t>(var)];
  return text + "\n";
}

const Aval& Value::aval() const { return builder_->aval(var_); }

Builder::Builder(std::string name) { program_.name = std::move(name); }

Value Builder::input(Aval aval) {
  Var var = static_cast<Var>(program_.variables.size());
  program_.variables.push_back(std::move(aval));
  program_.inputs.push_back(var);
  return {this, var};
}

std::vector<Value> Builder::emit(const Primitive& primitive, OpParams params, std::span<const Value> given) {
  std::vector<Value> inputs(given.begin(), given.end());
  std::vector<std::string> varying;
  for (const Value& value : inputs) {
    if (&value.builder() != this) {
      fail<TraceError>(
          "[{}] an operand belongs to another trace (at {}): a traced array has left its function",
          primitive.name, site().to_string());
    }
    varying = both(varying, value.aval().varying);
  }
  if (!primitive.sets_varying && inputs.size() > 1) {
    for (Value& value : inputs) {
      if (value.aval().varying != varying) value = lax::pvary(value, varying);
    }
  }

  std::vector<Aval> avals;
  avals.reserve(inputs.size());
  for (const Value& value : inputs) avals.push_back(value.aval());
  std::vector<Aval> results;
  try {
    results = primitive.shape(avals, params);
    for (const Aval& aval : results) check_bytes(aval);
  } catch (const ShapeError& error) {
    rethrow_with_place(primitive, error, avals, site());
  } catch (const DTypeError& error) {
    rethrow_with_place(primitive, error, avals, site());
  } catch (const ShardingError& error) {
    rethrow_with_place(primitive, error, avals, site());
  }

  for (Aval& aval : results)
    if (!primitive.sets_varying) aval.varying = varying;
  Equation equation{&primitive, std::move(params), {}, {}, site()};
  if (program_.axes.axes().empty()) note_axes(equation);
  return write(std::move(equation), inputs, std::move(results));
}

std::vector<Value> Builder::write(Equation equation, std::span<const Value> inputs,
                                  std::vector<Aval> results) {
  equation.inputs.clear();
  for (const Value& value : inputs) equation.inputs.push_back(value.var());
  equation.outputs.clear();
  std::vector<Value> outputs;
  for (Aval& aval : results) {
    const Var var = static_cast<Var>(program_.variables.size());
    program_.variables.push_back(std::move(aval));
    equation.outputs.push_back(var);
    outputs.emplace_back(this, var);
  }
  program_.equations.push_back(std::move(equation));
  return outputs;
}

void Builder::explain(std::size_t first, const std::string& reason) {
  for (Equation& equation : std::span(program_.equations).subspan(first)) {
    if (equation.primitive->exchange(equation.params).kind.empty()) continue;
    equation.origin = Origin::kPartitioner;
    equation.reason = reason;
  }
}

CallSite Builder::site() const { return site_ ? *site_ : in_named_scope(CallSiteScope::current()); }

void Builder::note_axes(const Equation& equation) {
  program_.axes = AxisEnv::current().without_mapped();
  for (const NestedProgram& nested : programs_of(equation))
    if (program_.axes.axes().empty()) program_.axes = nested.program->axes;
}

Program Builder::finish(std::span<const Value> outputs) {
  for (const Value& value : outputs) program_.outputs.push_back(value.var());
  return std::move(program_);
}

std::vector<Value> apply_primitive(const Primitive& primitive, OpParams params,
                                   std::span<const Value> inputs) {
  return inputs.front().builder().emit(primitive, std::move(params), inputs);
}

Value apply_primitive_like(const Value& like, const Primitive& primitive, OpParams params) {
  return like.builder().emit(primitive, std::move(params), {}).front();
}

std::vector<NestedProgram> programs_of(const Equation& equation) {
  if (!equation.primitive->nested) return {};
  return equation.primitive->nested->programs(equation.params);
}

bool has_effect(const Equation& equation) {
  if (equation.primitive->has_effect) return true;
  return std::ranges::any_of(programs_of(equation), [](const NestedProgram& nested) {
    return std::ranges::any_of(nested.program->equations, has_effect);
  });
}

void for_each_equation(const Program& program, const std::function<void(const Equation&)>& visit) {
  for (const Equation& equation : program.equations) {
    visit(equation);
    for (const NestedProgram& nested : programs_of(equation)) for_each_equation(*nested.program, visit);
  }
}

Tangents not_linear(const TransposeCall&) {
  fail_internally("an operation without linear operands was asked for its transpose");
}

double no_flops(std::span<const Aval>, std::span<const Aval>, const OpParams&) { return 0; }

double flops_of_results(std::span<const Aval>, std::span<const Aval> outputs, const OpParams&) {
  double elements = 0;
  for (const Aval& aval : outputs) elements += static_cast<double>(aval.num_elements());
  return elements;
}

double flops_of_operand(std::span<const Aval> inputs, std::span<const Aval>, const OpParams&) {
  return static_cast<double>(inputs.front().num_elements());
}

double flops_of_programs(std::span<const Aval>, std::span<const Aval>, const OpParams&) {
  fail_internally("an operation that holds programs was asked for its own cost");
}

Exchange no_exchange(const OpParams&) { return {}; }

Tangents nested_jvp(const JvpCall&) {
  fail_internally("an operation that holds programs was asked for a plain JVP");
}

std::vector<Value> nested_batching(const BatchCall&) {
  fail_internally("an operation that holds programs was asked for plain batching");
}

}  // namespace lockstep::ir
