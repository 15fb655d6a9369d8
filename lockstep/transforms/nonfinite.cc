// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/nonfinite.h"

#include <limits>
#include <numeric>
#include <unordered_map>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/nested.h"

namespace lockstep::transforms {
namespace {

ir::Value constant(ir::Builder& builder, std::int64_t value) {
  return builder
      .emit(ir::full_p(), ir::OpParams::of(ir::FullParams{ir::Scalar::of(value), DType::kI32, {}, false}), {})
      .front();
}

/// For each element of a floating value whether it is looked for.
ir::Value elements_of_real(const ir::Value& x, NonFinite what) {
  if (!what.infs) return ir::lax::ne(x, x);
  const ir::Value not_finite = ir::lax::logical_not(ir::lax::is_finite(x));
  return what.nans ? not_finite : ir::lax::logical_and(not_finite, ir::lax::eq(x, x));
}

/// A bool scalar: whether x contains an element to look for; nullopt if x cannot contain one.
std::optional<ir::Value> holds_one(const ir::Value& x, NonFinite what) {
  const Aval& aval = x.aval();
  if (!is_inexact(aval.dtype) || aval.num_elements() == 0) return std::nullopt;
  const ir::Value elements = !is_floating(aval.dtype)
                                 ? ir::lax::logical_or(elements_of_real(ir::lax::real(x), what),
                                                       elements_of_real(ir::lax::imag(x), what))
                                 : elements_of_real(x, what);
  std::vector<std::int64_t> axes(elements.aval().shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes.empty() ? elements : ir::lax::reduce_or(elements, std::move(axes));
}

void join(std::optional<ir::Value>& all, const std::optional<ir::Value>& one) {
  if (one) all = all ? ir::lax::logical_or(*all, *one) : *one;
}

/// The axes over which any variable varies, of the program and of those that it holds.
void add_varying(const ir::Program& program, std::vector<std::string>& varying) {
  for (const Aval& aval : program.variables) varying = ir::both(varying, aval.varying);
  for (const ir::Equation& equation : program.equations) {
    for (const ir::NestedProgram& nested : ir::programs_of(equation)) add_varying(*nested.program, varying);
  }
}

/// Writes programs with a check of the results after each operation.
class Search {
 public:
  Search(NonFinite what, std::vector<NonFiniteSearch::Operation>& operations)
      : what_(what), operations_(operations) {}

  /// The program's outputs. `first` is the number of the first operation, or kNowhere; it may vary over more
  /// axes afterwards.
  Values walk(ir::Builder& builder, const ir::Program& program, std::span<const ir::Value> inputs,
              ir::Value& first) {
    Bindings env("debug_nans", program, inputs);
    std::unordered_map<ir::Var, std::optional<ir::Value>> seen;
    auto one_in = [&](ir::Var var) -> const std::optional<ir::Value>& {
      auto [place, is_new] = seen.try_emplace(var);
      if (is_new) place->second = holds_one(env[var], what_);
      return place->second;
    };
    for (const ir::Equation& equation : program.equations) {
      if (equation.primitive->has_effect && equation.outputs.empty()) continue;
      CallSiteScope site(equation.site);
      const Values operands = env.all(equation.inputs);
      const bool nested = equation.primitive->nested.has_value();
      const Values results = nested ? walk_nested(builder, equation, operands, first)
                                    : builder.emit(*equation.primitive, equation.params, operands);
      for (std::size_t k = 0; k < results.size(); ++k) env.set(equation.outputs[k], results[k]);
      if (nested) continue;
      std::optional<ir::Value> made, given;
      for (ir::Var var : equation.outputs) join(made, one_in(var));
      if (!made) continue;
      for (ir::Var var : equation.inputs) join(given, one_in(var));
      note(equation, program.aval(equation.outputs.front()));
      if (given) made = ir::lax::logical_and(*made, ir::lax::logical_not(*given));
      set(builder, first, *made, static_cast<std::int64_t>(operations_.size()) - 1);
      // Behind shard_map it is one number again.
      if (equation.primitive == &ir::to_global_p()) first = settled(first);
    }
    return env.all(program.outputs);
  }

  /// Sets `first` to the number if it is kNowhere and `found` is true.
  static void set(ir::Builder& builder, ir::Value& first, const ir::Value& found, std::int64_t number) {
    const ir::Value none = ir::lax::eq(first, vary_like(constant(builder, NonFiniteSearch::kNowhere), first));
    const ir::Value now = ir::lax::logical_and(none, found);
    first = ir::lax::select(now, vary_like(constant(builder, number), now), vary_like(first, now));
  }

  /// The same on all devices.
  static ir::Value settled(const ir::Value& first) {
    const std::vector<std::string> varying = first.aval().varying;
    return varying.empty() ? first : ir::lax::pmin(first, varying);
  }

 private:
  static ir::Value vary_like(const ir::Value& x, const ir::Value& like) {
    return vary_over(x, like.aval().varying);
  }

  void note(const ir::Equation& equation, const Aval& result) {
    operations_.push_back(
        {equation.primitive->name, to_string(Aval{result.dtype, result.shape}), equation.site, within_});
  }

  Values walk_nested(ir::Builder& builder, const ir::Equation& equation, const Values& operands,
                     ir::Value& first) {
    const ir::Primitive* primitive = equation.primitive;
    if (primitive == &remat_p() || primitive == &custom_jvp_p() || primitive == &custom_vjp_p() ||
        primitive == &attention_p())
      return walk(builder, *ir::programs_of(equation).front().program, operands, first);
    within_.push_back(fmt::format("{} at {}", primitive->name.substr(0, primitive->name.find('_')),
                                  equation.site.to_string()));
    std::vector<std::string> varying = first.aval().varying;
    for (const ir::Value& operand : operands) varying = ir::both(varying, operand.aval().varying);
    for (const ir::NestedProgram& nested : ir::programs_of(equation)) add_varying(*nested.program, varying);
    first = vary_over(first, varying);
    Values results;
    if (primitive == &scan_p()) {
      results = walk_scan(builder, equation.params.as<ScanParams>(), operands, first);
    } else if (primitive == &while_p()) {
      results = walk_while(builder, equation.params.as<WhileParams>(), operands, first);
    } else if (primitive == &cond_p()) {
      results = walk_cond(builder, equation.params.as<CondParams>(), operands, first);
    } else {
      fail_internally("[debug_nans] the operation {} holds programs that are not known here",
                      primitive->name);
    }
    within_.pop_back();
    return results;
  }

  /// The program with one input and one output more, of `first`, at these places.
  ProgramPtr with_first(const ir::Program& program, std::size_t input_place, std::size_t output_place,
                        const Aval& first) {
    Inner inner(program.name);
    Values inputs;
    std::optional<ir::Value> found;
    for (std::size_t i = 0; i <= program.inputs.size(); ++i) {
      if (i == input_place) found = inner.input(first);
      if (i < program.inputs.size()) inputs.push_back(inner.input(input_aval(program, i)));
    }
    Values outputs = walk(inner.builder(), program, inputs, *found);
    outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(output_place),
                   vary_over(*found, first.varying));
    return inner.finish(outputs);
  }

  static ir::Value take(Values& results, std::size_t place) {
    const ir::Value value = results[place];
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(place));
    return value;
  }

  Values walk_scan(ir::Builder& builder, const ScanParams& p, Values operands, ir::Value& first) {
    const auto place = static_cast<std::size_t>(p.num_consts + p.num_carry);
    const auto carry = static_cast<std::size_t>(p.num_carry);
    const Aval aval = first.aval();
    const ProgramPtr body = with_first(*p.body, place, carry, aval);
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(place), first);
    Values results = emit_nested(
        builder, scan_p(),
        ir::OpParams::of(ScanParams{body, p.num_consts, p.num_carry + 1, p.length, p.reverse}), operands);
    first = take(results, carry);
    return results;
  }

  Values walk_while(ir::Builder& builder, const WhileParams& p, Values operands, ir::Value& first) {
    const Aval aval = first.aval();
    ProgramPtr condition;
    {
      Inner inner(p.condition->name);
      Values inputs;
      for (const Aval& each : p.condition->input_avals()) inputs.push_back(inner.input(each));
      inner.input(aval);
      condition = inner.finish(inline_program(inner.builder(), *p.condition, inputs));
    }
    const ProgramPtr body = with_first(*p.body, p.body->inputs.size(), p.body->outputs.size(), aval);
    operands.push_back(first);
    Values results = emit_nested(
        builder, while_p(), ir::OpParams::of(WhileParams{condition, body, p.condition_consts, p.body_consts}),
        operands);
    first = take(results, results.size() - 1);
    return results;
  }

  Values walk_cond(ir::Builder& builder, const CondParams& p, Values operands, ir::Value& first) {
    const Aval aval = first.aval();
    std::vector<ProgramPtr> branches;
    for (const ProgramPtr& branch : p.branches)
      branches.push_back(with_first(*branch, branch->inputs.size(), branch->outputs.size(), aval));
    operands.push_back(first);
    Values results =
        emit_nested(builder, cond_p(), ir::OpParams::of(CondParams{std::move(branches)}), operands);
    first = take(results, results.size() - 1);
    return results;
  }

  const NonFinite what_;
  std::vector<NonFiniteSearch::Operation>& operations_;
  std::vector<std::string> within_;
};

Values inputs_of(ir::Builder& builder, const ir::Program& program) {
  Values inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  return inputs;
}

}  // namespace

std::optional<ir::Program> with_check(const ir::Program& program, NonFinite what) {
  CallSiteReset reset;
  ir::Builder builder(program.name);
  Values outputs = inline_program(builder, program, inputs_of(builder, program));
  ir::AxisEnvScope axes(with_mapped_axes(program.axes));
  std::optional<ir::Value> found;
  for (const ir::Value& output : outputs) join(found, holds_one(output, what));
  if (!found) return std::nullopt;
  if (const std::vector<std::string> varying = found->aval().varying; !varying.empty()) {
    const ir::Value count = ir::lax::pmax(ir::lax::convert_element_type(*found, DType::kI32), varying);
    found = ir::lax::ne(count, constant(builder, 0));
  }
  outputs.push_back(*found);
  return builder.finish(outputs);
}

NonFiniteSearch search_for_first(const ir::Program& program, NonFinite what) {
  CallSiteReset reset;
  NonFiniteSearch search;
  ir::Builder builder(program.name);
  const Values inputs = inputs_of(builder, program);
  ir::AxisEnvScope axes(with_mapped_axes(program.axes));
  ir::Value first = constant(builder, NonFiniteSearch::kNowhere);
  Search(what, search.operations).walk(builder, program, inputs, first);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const auto held = holds_one(inputs[i], what))
      Search::set(builder, first, *held, static_cast<std::int64_t>(search.operations.size() + i));
  }
  first = Search::settled(first);
  search.program = builder.finish(std::span(&first, 1));
  return search;
}

}  // namespace lockstep::transforms
