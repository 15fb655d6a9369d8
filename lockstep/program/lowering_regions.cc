// SPDX-License-Identifier: Apache-2.0
// The parts of Lowering that write programs within programs.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/uses.h"
#include "lockstep/sleef/sleef.h"

namespace lockstep::ir {
namespace {

using Names = Lowering::Names;

/// The dimensions of a type's text, "tensor<4x8xf32>"; 0 for a token.
std::size_t rank_of(std::string_view type) {
  std::size_t rank = 0;
  for (std::size_t i = 1; i < type.size(); ++i)
    rank += type[i] == 'x' && type[i - 1] >= '0' && type[i - 1] <= '9';
  return rank;
}

/// "^bb0(%a: t, %b: u):" and a new line.
std::string block_head(const Names& arguments, const std::vector<std::string>& types) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", arguments[i], types[i]);
  return text.empty() ? "\n" : fmt::format("\n    ^bb0({}):\n", text);
}

std::string block_end(const Names& values, const std::vector<std::string>& types) {
  return fmt::format("    \"stablehlo.return\"({}) : ({}) -> ()\n", fmt::join(values, ", "),
                     fmt::join(types, ", "));
}

/// The variable whose memory each variable of the program may share: another one's if XLA makes no copy, as
/// for a reshape; else its own.
std::vector<Var> views(const Program& program) {
  std::vector<Var> memory(program.variables.size());
  for (std::size_t var = 0; var < memory.size(); ++var) memory[var] = static_cast<Var>(var);
  const auto share = [&](Var result, Var operand) {
    memory[static_cast<std::size_t>(result)] = memory[static_cast<std::size_t>(operand)];
  };
  for (const Equation& equation : program.equations) {
    const std::vector<NestedProgram> nested = programs_of(equation);
    if (nested.size() == 1 && nested[0].times == 1 && !nested[0].alternative) {
      const Program& inner = *nested[0].program;
      const std::vector<Var> within = views(inner);
      const std::vector<NestedLink> links = equation.primitive->nested->links(equation.params);
      for (const NestedLink& in : links) {
        if (in.from_program != NestedLink::kEquation || in.to_program != 0) continue;
        for (const NestedLink& out : links) {
          if (out.from_program == 0 && out.to_program == NestedLink::kEquation &&
              within[static_cast<std::size_t>(inner.outputs[out.from])] == inner.inputs[in.to])
            share(equation.outputs[out.to], equation.inputs[in.from]);
        }
      }
    } else if (nested.empty() && equation.inputs.size() == 1 && equation.outputs.size() == 1) {
      const Aval &from = program.aval(equation.inputs[0]), &to = program.aval(equation.outputs[0]);
      const Primitive& primitive = *equation.primitive;
      if (from.dtype == to.dtype && num_elements(from.shape) == num_elements(to.shape) &&
          primitive.exchange(equation.params).kind.empty() &&
          primitive.flops({&from, 1}, {&to, 1}, equation.params) == 0)
        share(equation.outputs[0], equation.inputs[0]);
    }
  }
  return memory;
}

}  // namespace

std::string Lowering::captured(const std::function<void()>& write) {
  std::string outer = std::exchange(body_, {});
  const std::string position = position_;
  write();
  position_ = position;  // what a region computes cannot be used behind it
  return std::exchange(body_, std::move(outer));
}

void Lowering::make_token(const std::string& name) {
  write(fmt::format("{} = stablehlo.create_token : {}", name, kMlirTokenType));
}

Names Lowering::several(const std::string& name, std::size_t count) const {
  Names names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(count == 1 ? name : fmt::format("{}#{}", name, i));
  return names;
}

bool Lowering::is_used(const Equation& equation, std::size_t i) const {
  return used_[static_cast<std::size_t>(equation.outputs[i])];
}

const Equation* Lowering::made_by(const Equation& equation, std::size_t i) const {
  return made_by_[static_cast<std::size_t>(equation.inputs[i])];
}

Names Lowering::composed(const Equation& equation, const std::string& name,
                         const std::function<Value(const std::vector<Value>& operands)>& compose) {
  Builder builder(name);
  std::vector<Value> operands;
  Names names;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    operands.push_back(builder.input(operand_aval(equation, i)));
    names.push_back(operand(equation, i));
  }
  const Value results[] = {compose(operands)};
  return inlined(builder.finish(results), std::move(names));
}

Names Lowering::inlined(const Program& program, Names inputs) {
  const Program* outer = std::exchange(program_, &program);
  Names outer_names = std::exchange(names_, Names(program.variables.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    names_[static_cast<std::size_t>(program.inputs[i])] = std::move(inputs[i]);
  // Memory that may be overwritten at its last use: of values computed here, or donated by the caller.
  const std::vector<Var> memory = views(program);
  const auto memory_of = [&](Var var) {
    return static_cast<std::size_t>(memory[static_cast<std::size_t>(var)]);
  };
  std::vector<const Equation*> last_use(program.variables.size(), nullptr);
  std::vector<bool> outer_used = std::exchange(used_, std::vector<bool>(program.variables.size()));
  std::vector<const Equation*> outer_made_by = std::exchange(made_by_, equations_of_variables(program));
  const Uses uses(program);
  const std::size_t end = program.equations.size();
  std::vector<std::size_t> last(program.variables.size());
  for (std::size_t v = 0; v < program.variables.size(); ++v) {
    const auto var = static_cast<Var>(v);
    used_[v] = uses.is_used(var);
    if (!used_[v]) continue;
    std::size_t& place = last[memory_of(var)];
    place = std::max(place, *uses.last(var));
    last_use[memory_of(var)] = place == end ? nullptr : &program.equations[place];
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (outer != &program || !is_donated(i)) last_use[static_cast<std::size_t>(program.inputs[i])] = nullptr;
  std::vector<bool> awaited(program.variables.size());
  for (const Equation& equation : program.equations)
    if (equation.primitive == &collective_done_p())
      awaited[static_cast<std::size_t>(equation.inputs[0])] = true;
  for (const Equation& equation : program.equations) {
    CallSiteReset reset;
    CallSiteScope site(equation.site);
    operand_dies_ = !equation.inputs.empty() && last_use[memory_of(equation.inputs[0])] == &equation;
    is_awaited_ = equation.outputs.size() == 1 && awaited[static_cast<std::size_t>(equation.outputs[0])];
    Names results = equation.primitive->lower(*this, equation);
    remember(equation, results);
    for (std::size_t i = 0; i < results.size(); ++i)
      names_[static_cast<std::size_t>(equation.outputs[i])] = std::move(results[i]);
  }
  Names outputs;
  for (Var var : program.outputs) outputs.push_back(names_[static_cast<std::size_t>(var)]);
  program_ = outer;
  names_ = std::move(outer_names);
  used_ = std::move(outer_used);
  made_by_ = std::move(outer_made_by);
  return outputs;
}

bool Lowering::joins_chain(const std::function<void()>& write) {
  const std::string before = chain_.empty() ? std::exchange(chain_, fresh()) : chain_, outer = chain_;
  const std::size_t collectives = collectives_.size(), functions = functions_.size();
  captured(write);
  collectives_.resize(collectives);
  functions_.resize(functions);
  return std::exchange(chain_, before) != outer;
}

Names Lowering::loop(const Names& initial, const std::vector<std::string>& types,
                     const std::function<std::string(const Names&)>& condition,
                     const std::function<Names(const Names&)>& body) {
  // A condition returns no token, so equations after the loop would not be ordered after its collectives: XLA
  // hoists a token that the body passes on unchanged out of the loop. Such a condition is computed before the
  // loop and at the end of each step, and the loop carries its result.
  if (joins_chain([&] { condition(initial); })) {
    Names carried = initial;
    carried.push_back(condition(initial));
    std::vector<std::string> carried_types = types;
    carried_types.emplace_back("tensor<i1>");
    Names results = loop(
        carried, carried_types, [](const Names& state) { return state.back(); },
        [&](const Names& state) {
          Names next = body({state.begin(), state.end() - 1});
          next.push_back(condition(next));
          return next;
        });
    results.pop_back();
    return results;
  }
  const std::string before = chain_;
  auto arguments = [&] {
    Names names;
    for (std::size_t i = 0; i < types.size(); ++i) names.push_back(fresh());
    return names;
  };
  const Names in_condition = arguments(), in_body = arguments();
  const std::string condition_token = fresh(), body_token = fresh();
  std::string go_on, last_token;
  Names next;
  ++loops_;
  const std::string condition_text = captured([&] { go_on = condition(in_condition); });
  chain_ = body_token;
  const std::string body_text = captured([&] { next = body(in_body); });
  --loops_;
  const bool chained = chain_ != body_token;
  last_token = std::exchange(chain_, before);

  auto with = [&](Names names, const std::string& token) {
    if (chained) names.push_back(token);
    return names;
  };
  if (chained && chain_.empty()) make_token(chain_ = fresh());
  const std::vector<std::string> all_types = with(types, std::string(kMlirTokenType));
  const std::string name = fresh();
  const std::size_t count = all_types.size();
  line(fmt::format("{}{} = \"stablehlo.while\"({}) ({{{}{}{}    }}, {{{}{}{}    }}) : ({}) -> ({})", name,
                   count == 1 ? "" : fmt::format(":{}", count), fmt::join(with(initial, chain_), ", "),
                   block_head(with(in_condition, condition_token), all_types), condition_text,
                   block_end({go_on}, {"tensor<i1>"}), block_head(with(in_body, body_token), all_types),
                   body_text, block_end(with(next, last_token), all_types), fmt::join(all_types, ", "),
                   fmt::join(all_types, ", ")));
  Names results = several(name, count);
  if (chained) {
    chain_ = results.back();
    results.pop_back();
  }
  return results;
}

Names Lowering::choice(const std::string& index, const std::vector<std::string>& types,
                       const std::vector<std::function<Names()>>& branches) {
  const std::string before = chain_, first_token = before.empty() ? fresh() : before;
  std::vector<std::string> texts, tokens;
  std::vector<Names> values(branches.size());
  bool chained = false;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    chain_ = first_token;
    texts.push_back(captured([&] { values[i] = branches[i](); }));
    chained = chained || chain_ != first_token;
    tokens.push_back(chain_);
  }
  chain_ = before;
  std::vector<std::string> all_types = types;
  if (chained) {
    all_types.emplace_back(kMlirTokenType);
    if (before.empty()) make_token(first_token);
  }
  std::string regions;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (chained) values[i].push_back(tokens[i]);
    regions += fmt::format("{}{{\n{}{}    }}", i == 0 ? "" : ", ", texts[i], block_end(values[i], all_types));
  }
  const std::size_t count = all_types.size();
  const std::string name = fresh();
  line(fmt::format("{}\"stablehlo.case\"({}) ({}) : (tensor<i32>) -> ({})",
                   count == 0   ? ""
                   : count == 1 ? name + " = "
                                : fmt::format("{}:{} = ", name, count),
                   index, regions, fmt::join(all_types, ", ")));
  Names results = several(name, count);
  if (chained) {
    chain_ = results.back();
    results.pop_back();
  }
  return results;
}

Names Lowering::barrier(const Names& values, const std::vector<std::string>& types) {
  if (values.empty()) return {};
  const std::string name = fresh();
  line(fmt::format("{}{} = \"stablehlo.optimization_barrier\"({}) : ({}) -> ({})", name,
                   values.size() == 1 ? "" : fmt::format(":{}", values.size()), fmt::join(values, ", "),
                   fmt::join(types, ", "), fmt::join(types, ", ")));
  return several(name, values.size());
}

Names Lowering::host_call(std::string_view target, std::span<const std::string> operands,
                          std::span<const std::string> operand_types,
                          std::span<const std::string> result_types, std::string_view config, bool effect) {
  if (!for_cpu_ && !for_cuda_) {
    fail(
        "[{}] a program for this platform cannot call the host (at {}); leave debug::print, check_finite and "
        "callbacks out",
        target, CallSiteScope::current().to_string());
  }
  if (effect && chain_.empty()) make_token(chain_ = fresh());
  Names names = {position()}, types = {"tensor<i32>"}, all_results(result_types.begin(), result_types.end());
  names.insert(names.end(), operands.begin(), operands.end());
  types.insert(types.end(), operand_types.begin(), operand_types.end());
  if (effect) {
    names.push_back(chain_);
    types.emplace_back(kMlirTokenType);
    all_results.emplace_back(kMlirTokenType);
  }
  Names results =
      ffi_call(target, fmt::format("program = {} : i64, {}", static_cast<std::int64_t>(fingerprint_), config),
               names, types, all_results, effect);
  if (effect) {
    chain_ = results.back();
    results.pop_back();
  }
  return results;
}

Names Lowering::lapack_call(std::string_view routine, const Equation& equation, std::string_view config) {
  return library_call(lapack::kLapackTarget, equation, fmt::format("routine = \"{}\"{}", routine, config));
}

Names Lowering::library_call(std::string_view target, const Equation& equation, std::string_view config) {
  Names operands, types;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    operands.push_back(operand(equation, i));
    types.push_back(operand_type(equation, i));
  }
  return library_call(target, equation, operands, types, config);
}

Names Lowering::library_call(std::string_view target, const Equation& equation, const Names& operands,
                             const Names& types, std::string_view config) {
  Names result_types;
  for (std::size_t i = 0; i < equation.outputs.size(); ++i) result_types.push_back(result_type(equation, i));
  return ffi_call(target, config, operands, types, result_types);
}

Names Lowering::ffi_call(std::string_view target, std::string_view config, const Names& operands,
                         const Names& types, const Names& result_types, bool effect) {
  // XLA's compiler for CUDA would choose other layouts.
  const auto layouts = [](const Names& types) {
    Names all;
    for (const std::string& type : types) all.push_back(mlir_row_major(rank_of(type)));
    return fmt::format("[{}]", fmt::join(all, ", "));
  };
  const std::string given = for_cuda_ ? fmt::format("operand_layouts = {}, result_layouts = {}, ",
                                                    layouts(types), layouts(result_types))
                                      : "";
  const std::string name = fresh();
  const std::size_t count = result_types.size();
  line(
      fmt::format("{}{} = \"stablehlo.custom_call\"({}) {{call_target_name = \"{}\", api_version = 4 : i32, "
                  "{}{}backend_config = {{{}}}}} : ({}) -> ({})",
                  name, count == 1 ? "" : fmt::format(":{}", count), fmt::join(operands, ", "), target,
                  effect ? "has_side_effect = true, " : "", given, config, fmt::join(types, ", "),
                  fmt::join(result_types, ", ")));
  return several(name, count);
}

std::string Lowering::converted(const std::string& name, DType from, DType to, const Shape& shape) {
  if (from == to) return name;
  return op("stablehlo.convert", {{name}}, {{mlir_type(from, shape)}}, mlir_type(to, shape));
}

Names Lowering::onednn_call(std::string_view config, std::span<const std::pair<std::string, Aval>> operands,
                            std::span<const Aval> results) {
  Names names, types, result_types;
  for (const auto& [name, aval] : operands) {
    const DType taken = is_floating(aval.dtype) ? DType::kF32 : aval.dtype;
    names.push_back(converted(name, aval.dtype, taken, aval.shape));
    types.push_back(mlir_type(taken, aval.shape));
  }
  for (const Aval& result : results) result_types.push_back(mlir_type(DType::kF32, result.shape));
  Names computed = ffi_call(onednn::kOneDnnTarget, config, names, types, result_types);
  for (std::size_t i = 0; i < results.size(); ++i)
    computed[i] = converted(computed[i], DType::kF32, results[i].dtype, results[i].shape);
  return computed;
}

bool Lowering::onednn_takes(DType operands, DType result) const {
  const auto is_taken = [](DType dtype) {
    return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  };
  return onednn_ && is_taken(operands) && is_taken(result);
}

std::string Lowering::sleef_call(std::string_view function, const Equation& equation) {
  const Aval& result = result_aval(equation);
  const DType dtype = sleef::computed_in(result.dtype);
  const std::string type = mlir_type(dtype, result.shape);
  Names operands;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i)
    operands.push_back(converted(operand(equation, i), result.dtype, dtype, result.shape));
  const std::string computed = ffi_call(sleef::kSleefTarget, fmt::format("function = \"{}\"", function),
                                        operands, Names(operands.size(), type), {type})
                                   .front();
  return converted(computed, dtype, result.dtype, result.shape);
}

bool Lowering::sleef_takes(DType dtype) const { return sleef_ && is_floating(dtype); }

}  // namespace lockstep::ir
