// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/evaluate.h"

#include <algorithm>
#include <utility>

#include "lockstep/array/trace.h"
#include "lockstep/base/call_site_reset.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::internal {
namespace {

using Arrays = std::vector<Array>;

Arrays part(const Arrays& arrays, std::size_t from, std::size_t count) {
  const auto begin = arrays.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Arrays joined(Arrays first, const Arrays& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The arrays with the dtypes, weak or not, that the program's inputs have.
Arrays as_inputs(Arrays arrays, const ir::Program& program) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Aval& aval = program.aval(program.inputs[i]);
    arrays[i] = ir::lax::convert_element_type(arrays[i], aval.dtype, aval.weak_type);
  }
  return arrays;
}

Arrays evaluate_scan(const transforms::ScanParams& p, const Arrays& operands, std::span<const Aval> results) {
  const auto consts = static_cast<std::size_t>(p.num_consts),
             num_carry = static_cast<std::size_t>(p.num_carry);
  const Arrays constants = part(operands, 0, consts);
  Arrays carry = part(operands, consts, num_carry);
  const Arrays xs = part(operands, consts + num_carry, operands.size() - consts - num_carry);
  std::vector<Arrays> ys(results.size() - num_carry);
  for (std::int64_t step = 0; step < p.length; ++step) {
    Arrays inputs = joined(constants, carry);
    for (const Array& x : xs) inputs.push_back(element(x, p.reverse ? p.length - 1 - step : step));
    const Arrays outputs = evaluate(*p.body, as_inputs(std::move(inputs), *p.body));
    carry = part(outputs, 0, num_carry);
    for (std::size_t k = 0; k < ys.size(); ++k) ys[k].push_back(outputs[num_carry + k]);
  }
  Arrays all = std::move(carry);
  for (std::size_t k = 0; k < ys.size(); ++k) {
    const Aval& aval = results[num_carry + k];
    if (p.reverse) std::ranges::reverse(ys[k]);
    const ir::Scalar zero = is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0);
    all.push_back(p.length > 0 ? ir::lax::convert_element_type(stacked(ys[k]), aval.dtype, aval.weak_type)
                               : ir::lax::full(Array(), zero, aval.dtype, aval.shape));
  }
  return all;
}

Arrays evaluate_while(const transforms::WhileParams& p, const Arrays& operands) {
  const auto of_condition = static_cast<std::size_t>(p.condition_consts),
             of_body = static_cast<std::size_t>(p.body_consts);
  const Arrays condition_consts = part(operands, 0, of_condition),
               body_consts = part(operands, of_condition, of_body);
  Arrays carry = part(operands, of_condition + of_body, operands.size() - of_condition - of_body);
  while (evaluate(*p.condition, as_inputs(joined(condition_consts, carry), *p.condition))
             .front()
             .item<std::uint8_t>() != 0) {
    carry = evaluate(*p.body, as_inputs(joined(body_consts, carry), *p.body));
  }
  return carry;
}

Arrays evaluate_cond(const transforms::CondParams& p, const Arrays& operands) {
  const auto last = static_cast<std::int32_t>(p.branches.size()) - 1;
  const std::int32_t index = std::clamp(operands.front().item<std::int32_t>(), 0, last);
  const ir::Program& branch = *p.branches[static_cast<std::size_t>(index)];
  return evaluate(branch, as_inputs(part(operands, 1, operands.size() - 1), branch));
}

/// Runs the equations as one program of its own.
Arrays run_together(const ir::Program& equations, const Arrays& inputs) {
  return run_operation("shard_map", to_string(equations), inputs, [&](std::span<const Array> arrays) {
    Trace& trace = *Trace::current();
    std::vector<ir::Value> values;
    for (const Array& array : arrays) values.push_back(trace.value_of(array));
    Arrays results;
    for (const ir::Value& value : transforms::inline_program(trace.builder(), equations, values))
      results.push_back(trace.wrap(value));
    return results;
  });
}

/// One evaluation of a program.
///
/// Equations under shard_map have operands or results that vary over mesh axes: each device's own, which no
/// Array can be. They are put off, with all that needs their results, until no value that varies is needed
/// any more; then they run together.
class Evaluation {
 public:
  Evaluation(const ir::Program& program, std::span<const Array> inputs)
      : program_(program), uses_(program), values_(program.variables.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) at(program.inputs[i]) = inputs[i];
  }

  Arrays run() {
    for (now_ = 0; now_ < program_.equations.size(); ++now_) {
      const ir::Equation& equation = program_.equations[now_];
      if (is_put_off(equation)) {
        put_off_.push_back(&equation);
        if (!needs_varying_later()) run_put_off();
      } else {
        Arrays operands;
        for (ir::Var var : equation.inputs) operands.push_back(at(var));
        const Arrays results = evaluate_one(equation, operands);
        for (std::size_t k = 0; k < results.size(); ++k) at(equation.outputs[k]) = results[k];
      }
      if (put_off_.empty()) let_go(equation);
    }
    Arrays outputs;
    for (ir::Var var : program_.outputs) outputs.push_back(at(var));
    return outputs;
  }

 private:
  Array& at(ir::Var var) { return values_[static_cast<std::size_t>(var)]; }
  std::size_t last_use(ir::Var var) const { return uses_.last(var).value_or(0); }
  bool varies(ir::Var var) const { return !program_.aval(var).varying.empty(); }

  bool is_put_off(const ir::Equation& equation) {
    if (equation.primitive == &ir::to_local_p() || equation.primitive == &ir::to_global_p()) return true;
    if (!equation.primitive->exchange(equation.params).kind.empty()) return true;
    return std::ranges::any_of(equation.outputs, [&](ir::Var var) { return varies(var); }) ||
           std::ranges::any_of(equation.inputs, [&](ir::Var var) { return varies(var) || !at(var).valid(); });
  }

  bool needs_varying_later() const {
    return std::ranges::any_of(put_off_, [&](const ir::Equation* equation) {
      return std::ranges::any_of(equation->outputs,
                                 [&](ir::Var var) { return varies(var) && last_use(var) > now_; });
    });
  }

  void run_put_off() {
    ir::Program part;
    part.name = "shard_map";
    part.variables = program_.variables;
    part.axes = program_.axes;
    std::vector<bool> is_inside(program_.variables.size());
    Arrays inputs;
    for (const ir::Equation* equation : put_off_) {
      for (ir::Var var : equation->inputs) {
        if (is_inside[static_cast<std::size_t>(var)]) continue;
        is_inside[static_cast<std::size_t>(var)] = true;
        part.inputs.push_back(var);
        inputs.push_back(at(var));
      }
      for (ir::Var var : equation->outputs) {
        is_inside[static_cast<std::size_t>(var)] = true;
        if (!varies(var) && last_use(var) > now_) part.outputs.push_back(var);
      }
      part.equations.push_back(*equation);
    }
    const std::vector<ir::Var> outputs = part.outputs;
    CallSiteReset reset;
    CallSiteScope site(put_off_.front()->site);
    const Arrays results = run_together(transforms::eliminate_dead_code(std::move(part)), inputs);
    for (std::size_t k = 0; k < results.size(); ++k) at(outputs[k]) = results[k];
    for (const ir::Equation* equation : put_off_) let_go(*equation);
    put_off_.clear();
  }

  void let_go(const ir::Equation& equation) {
    for (const std::vector<ir::Var>* vars : {&equation.inputs, &equation.outputs}) {
      for (ir::Var var : *vars)
        if (last_use(var) <= now_) at(var) = Array();
    }
  }

  Arrays evaluate_one(const ir::Equation& equation, const Arrays& operands) const {
    CallSiteReset reset;
    CallSiteScope site(equation.site);
    const ir::Primitive* primitive = equation.primitive;
    if (!primitive->nested) {
      // A constraint whose mesh does not divide the size is ignored.
      if (primitive == &ir::sharding_constraint_p() && !is_divided(equation, operands.front()))
        return operands;
      return apply_primitive(*primitive, equation.params, operands);
    }
    if (primitive == &transforms::scan_p()) {
      std::vector<Aval> results;
      for (ir::Var var : equation.outputs) results.push_back(program_.aval(var));
      return evaluate_scan(equation.params.as<transforms::ScanParams>(), operands, results);
    }
    if (primitive == &transforms::while_p())
      return evaluate_while(equation.params.as<transforms::WhileParams>(), operands);
    if (primitive == &transforms::cond_p())
      return evaluate_cond(equation.params.as<transforms::CondParams>(), operands);
    const std::vector<ir::NestedProgram> programs = ir::programs_of(equation);
    if (programs.size() != 1)
      fail_internally("[disable_jit] {} holds {} programs, expected one", primitive->name, programs.size());
    return evaluate(*programs.front().program, as_inputs(operands, *programs.front().program));
  }

  static bool is_divided(const ir::Equation& constraint, const Array& array) {
    const auto& placement = constraint.params.as<ir::PlacementParams>();
    for (std::size_t d = 0; d < placement.spec.size(); ++d) {
      std::int64_t parts = 1;
      for (const std::string& axis : placement.spec[d]) {
        const auto found = std::ranges::find(placement.axes, axis) - placement.axes.begin();
        parts *= placement.sizes[static_cast<std::size_t>(found)];
      }
      if (array.shape()[d] % parts != 0) return false;
    }
    return true;
  }

  const ir::Program& program_;
  const ir::Uses uses_;
  Arrays values_;  // none: not computed yet, or let go
  std::vector<const ir::Equation*> put_off_;
  std::size_t now_ = 0;
};

}  // namespace

std::vector<Array> evaluate(const ir::Program& program, std::span<const Array> inputs) {
  return Evaluation(program, inputs).run();
}

Array element(const Array& array, std::int64_t index) {
  Shape sizes = array.shape();
  std::vector<Array> starts(sizes.size(), Array(0));
  starts.front() = Array(index);
  sizes.front() = 1;
  const Array slice = ir::lax::dynamic_slice(array, std::span<const Array>(starts), sizes);
  sizes.erase(sizes.begin());
  return ir::lax::reshape(slice, sizes);
}

Array stacked(const std::vector<Array>& elements) {
  std::vector<Array> rows;
  for (const Array& each : elements) {
    Shape shape = each.shape();
    shape.insert(shape.begin(), 1);
    rows.push_back(ir::lax::reshape(each, std::move(shape)));
  }
  return ir::lax::concatenate(std::span<const Array>(rows), 0);
}

}  // namespace lockstep::internal
