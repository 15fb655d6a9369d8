// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/padding.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::sharding {
namespace {

/// The shape with each dimension up to the next size that the constraint's axes divide.
Shape constrained_shape(const Shape& shape, const ir::PlacementParams& placement) {
  Shape padded = shape;
  for (std::size_t d = 0; d < std::min(shape.size(), placement.spec.size()); ++d) {
    std::int64_t parts = 1;
    for (const std::string& axis : placement.spec[d]) {
      const auto at = std::ranges::find(placement.axes, axis) - placement.axes.begin();
      parts *= placement.sizes[static_cast<std::size_t>(at)];
    }
    padded[d] = (shape[d] + parts - 1) / parts * parts;
  }
  return padded;
}

bool is_uneven(const ir::Program& program, const ir::Equation& equation) {
  if (equation.primitive != &ir::sharding_constraint_p()) return false;
  const Shape& shape = program.aval(equation.inputs[0]).shape;
  return constrained_shape(shape, equation.params.as<ir::PlacementParams>()) != shape;
}

bool equations_need_padding(const ir::Program& program, const UnevenResults& uneven);

/// Whether a program that the equation holds needs padding.
bool holds_uneven(const ir::Equation& equation, const UnevenResults& uneven) {
  return std::ranges::any_of(ir::programs_of(equation), [&](const ir::NestedProgram& nested) {
    return equations_need_padding(*nested.program, uneven);
  });
}

bool equations_need_padding(const ir::Program& program, const UnevenResults& uneven) {
  return std::ranges::any_of(program.equations, [&](const ir::Equation& equation) {
    return uneven.shapes.contains(&equation) || is_uneven(program, equation) ||
           holds_uneven(equation, uneven);
  });
}

/// How an equation is done on padded operands.
struct PaddingPlan {
  std::vector<Shape> operands, results;
  std::vector<std::vector<std::size_t>>
      masked;  ///< for each operand, the dimensions whose padding must be zeros
  ir::OpParams params;
};

class Padding {
 public:
  Padding(const ir::Program& program, const UnevenResults& uneven)
      : program_(program),
        uneven_(uneven),
        builder_(program.name),
        made_by_(ir::equations_of_variables(program)),
        plain_(program.variables.size()),
        padded_(program.variables.size()) {}

  ir::Program run() {
    for (ir::Var var : program_.inputs) plain_[at(var)] = builder_.input(program_.aval(var));
    for (const ir::Equation& equation : program_.equations) {
      const ir::EquationsAt at(builder_, equation.site);
      emit(equation);
    }
    const ir::EquationsAt nowhere(builder_, {});
    std::vector<ir::Value> outputs;
    for (ir::Var var : program_.outputs) outputs.push_back(plain(var));
    return builder_.finish(outputs);
  }

 private:
  static std::size_t at(ir::Var var) { return static_cast<std::size_t>(var); }

  const ir::Value& plain(ir::Var var) {
    std::optional<ir::Value>& value = plain_[at(var)];
    if (!value) {
      const Shape& shape = program_.aval(var).shape;
      value = ir::lax::slice(*padded_[at(var)], Shape(shape.size()), shape);
    }
    return *value;
  }

  /// The value in a shape that is its own or larger.
  ir::Value in_shape(ir::Var var, const Shape& shape) {
    if (padded_[at(var)] && padded_[at(var)]->aval().shape == shape) return *padded_[at(var)];
    const ir::Value& value = plain(var);
    const Aval& aval = value.aval();
    if (aval.shape == shape) return value;
    std::vector<std::int64_t> high;
    for (std::size_t d = 0; d < shape.size(); ++d) high.push_back(shape[d] - aval.shape[d]);
    if (std::optional<ir::Value> same = broadcast_to(var, shape)) return *same;
    const std::vector<std::int64_t> none(shape.size());
    const ir::Scalar number = is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0);
    const ir::Value zero = ir::lax::full(value, number, aval.dtype, {}, aval.weak_type);
    return ir::lax::pad(value, zero, none, std::move(high), none);
  }

  /// The value in a larger shape, if it is a broadcast and equal along what grows: there the padding, which
  /// may be anything, is what is broadcast, and needs no memory.
  std::optional<ir::Value> broadcast_to(ir::Var var, const Shape& shape) {
    const ir::Equation* const equation = made_by_[at(var)];
    if (equation == nullptr) return std::nullopt;
    if (equation->primitive == &ir::full_p()) {
      const auto& number = equation->params.as<ir::FullParams>();
      return ir::lax::full(plain(var), number.value, number.dtype, shape, number.weak_type);
    }
    if (equation->primitive != &ir::broadcast_in_dim_p()) return std::nullopt;
    const auto& dimensions = equation->params.as<ir::BroadcastInDimParams>().broadcast_dimensions;
    const Shape &small = program_.aval(equation->inputs[0]).shape, &large = program_.aval(var).shape;
    for (std::size_t i = 0; i < small.size(); ++i) {
      const std::size_t d = static_cast<std::size_t>(dimensions[i]);
      if (small[i] != 1 && shape[d] != large[d]) return std::nullopt;
    }
    return ir::lax::broadcast_in_dim(plain(equation->inputs[0]), shape, dimensions);
  }

  /// The value with zeros from element `size` of the dimension on.
  static ir::Value masked(const ir::Value& value, std::size_t dimension, std::int64_t size) {
    const Shape& shape = value.aval().shape;
    const ir::Value places =
        ir::lax::iota(value, place_dtype(shape[dimension]), shape, static_cast<std::int64_t>(dimension));
    return ir::lax::select(ir::lax::lt(places, ir::lax::full_like(places, static_cast<double>(size))), value,
                           ir::lax::full_like(value, 0));
  }

  void set(ir::Var var, const ir::Value& value) {
    (value.aval().shape == program_.aval(var).shape ? plain_ : padded_)[at(var)] = value;
  }

  std::optional<PaddingPlan> plan(const ir::Equation& equation) const {
    if (std::ranges::none_of(equation.inputs, [&](ir::Var var) { return padded_[at(var)].has_value(); }))
      return std::nullopt;
    std::vector<Aval> inputs, outputs;
    for (ir::Var var : equation.inputs) inputs.push_back(program_.aval(var));
    for (ir::Var var : equation.outputs) outputs.push_back(program_.aval(var));
    const ir::ShardingRule rule = equation.primitive->sharding(inputs, outputs, equation.params);

    std::vector<std::int64_t> sizes;  // of each factor
    for (const ir::ShardingRule::Factor& factor : rule.factors) sizes.push_back(factor.size);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<ir::Value>& value = padded_[at(equation.inputs[i])];
      for (std::size_t d = 0; value && d < inputs[i].shape.size(); ++d) {
        const std::int64_t size = value->aval().shape[d];
        if (size == inputs[i].shape[d]) continue;
        const int factor = rule.operands[i][d];
        if (factor == ir::ShardingRule::kWhole || rule.factors[at(factor)].exchanged ||
            rule.factors[at(factor)].size != inputs[i].shape[d])
          return std::nullopt;
        if (sizes[at(factor)] != inputs[i].shape[d] && sizes[at(factor)] != size) return std::nullopt;
        sizes[at(factor)] = size;
      }
    }
    PaddingPlan plan;
    std::vector<bool> in_result(sizes.size(), false);
    auto grown = [&](const std::vector<int>& dims, const Shape& shape) -> std::optional<Shape> {
      Shape to = shape;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] == ir::ShardingRule::kWhole || sizes[at(dims[d])] == rule.factors[at(dims[d])].size)
          continue;
        if (std::ranges::count(dims, dims[d]) > 1 || shape[d] != rule.factors[at(dims[d])].size)
          return std::nullopt;
        to[d] = sizes[at(dims[d])];
      }
      return to;
    };
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::optional<Shape> shape = grown(rule.results[i], outputs[i].shape);
      if (!shape) return std::nullopt;
      plan.results.push_back(std::move(*shape));
      for (int factor : rule.results[i]) {
        if (factor != ir::ShardingRule::kWhole) in_result[at(factor)] = true;
      }
    }
    const bool sums = equation.primitive->zero_padding == ir::ZeroPadding::kAddsNothing;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::optional<Shape> shape = grown(rule.operands[i], inputs[i].shape);
      if (!shape) return std::nullopt;
      plan.operands.push_back(std::move(*shape));
      std::vector<std::size_t>& masked = plan.masked.emplace_back();
      for (std::size_t d = 0; d < rule.operands[i].size(); ++d) {
        const int factor = rule.operands[i][d];
        if (plan.operands[i][d] == inputs[i].shape[d] || in_result[at(factor)]) continue;
        if (!sums) return std::nullopt;
        masked.push_back(d);
      }
    }
    plan.params =
        rule.localize ? rule.localize(equation.params, plan.operands, plan.results) : equation.params;
    return plan;
  }

  void emit(const ir::Equation& equation) {
    if (is_uneven(program_, equation)) {
      const ir::Var from = equation.inputs[0];
      const auto& placement = equation.params.as<ir::PlacementParams>();
      const ir::Value value = in_shape(from, constrained_shape(program_.aval(from).shape, placement));
      return set(equation.outputs[0], ir::lax::sharding_constraint(value, placement));
    }
    if (holds_uneven(equation, uneven_)) return emit_nested(equation);
    if (emit_resized(equation)) return;
    const std::optional<PaddingPlan> plan = this->plan(equation);
    std::vector<ir::Value> operands;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const ir::Var var = equation.inputs[i];
      if (!plan) {
        operands.push_back(plain(var));
        continue;
      }
      ir::Value value = in_shape(var, plan->operands[i]);
      for (std::size_t d : plan->masked[i]) value = masked(value, d, program_.aval(var).shape[d]);
      operands.push_back(value);
    }
    const std::vector<ir::Value> results =
        builder_.emit(*equation.primitive, plan ? plan->params : equation.params, operands);
    for (std::size_t i = 0; i < results.size(); ++i) set(equation.outputs[i], results[i]);
  }

  /// The slice that made an operand of a concatenation along the same dimension.
  const ir::Equation* slice_within(const ir::Equation& equation, ir::Var var) const {
    if (equation.primitive != &ir::concatenate_p()) return nullptr;
    for (const ir::Equation& slice : program_.equations) {
      if (slice.outputs.empty() || slice.outputs[0] != var) continue;
      const auto along = static_cast<std::size_t>(equation.params.as<ir::ConcatenateParams>().dimension);
      const bool is_one =
          !slice.inputs.empty() && is_slice_along(slice, program_.aval(slice.inputs[0]).shape, along);
      return is_one ? &slice : nullptr;
    }
    return nullptr;
  }

  /// A slice, a pad or a concatenation of padded values, or of a size that the devices do not divide. Whether
  /// it is one.
  bool emit_resized(const ir::Equation& equation) {
    if (!can_resize(equation)) return false;
    if (uneven_.within.contains(&equation)) return true;
    if (const auto pad = uneven_.of_pads.find(&equation); pad != uneven_.of_pads.end()) {
      const auto& slice = equation.params.as<ir::SliceParams>();
      const ir::Var x = pad->second->inputs[0];
      ir::Equation one = *pad->second;
      one.params = ir::OpParams::of(pad_of(slice, one.params.as<ir::PadParams>(), program_.aval(x).shape));
      one.outputs = equation.outputs;
      emit_as(one, &equation);
      return true;
    }
    return emit_as(equation, &equation);
  }

  /// The same for an equation that replaces another one, `origin`.
  bool emit_as(const ir::Equation& equation, const ir::Equation* origin) {
    std::vector<PaddedOperand> operands;
    if (emit_rotation(equation, origin)) return true;
    const auto found = uneven_.shapes.find(origin);
    const bool is_uneven = found != uneven_.shapes.end();
    auto stored = [&](ir::Var var) { return padded_[at(var)] ? *padded_[at(var)] : plain(var); };
    for (ir::Var var : equation.inputs) {
      const Shape& own = program_.aval(var).shape;
      const ir::Equation* slice = is_uneven ? slice_within(equation, var) : nullptr;
      if (slice == nullptr) {
        operands.push_back({stored(var), own});
      } else {
        const auto along = at(static_cast<ir::Var>(equation.params.as<ir::ConcatenateParams>().dimension));
        operands.push_back(
            {stored(slice->inputs[0]), own, slice->params.as<ir::SliceParams>().start_indices[along]});
      }
    }
    const Shape& shape = program_.aval(equation.outputs[0]).shape;
    std::optional<Shape> to = resized_shape(equation, operands, shape);
    if (is_uneven) {
      if (!to) to = shape;
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (found->second[d] != shape[d]) (*to)[d] = found->second[d];
    }
    if (to) set(equation.outputs[0], resized(equation, operands, shape, *to));
    if (!to && &equation != origin) {
      std::vector<ir::Value> values;
      for (ir::Var var : equation.inputs) values.push_back(plain(var));
      set(equation.outputs[0], builder_.emit(*equation.primitive, equation.params, values)[0]);
    }
    return to.has_value();
  }

  /// A value's end before its beginning: a rotation. Whether the equation is one.
  bool emit_rotation(const ir::Equation& equation, const ir::Equation* origin) {
    if (equation.inputs.size() != 2 || !uneven_.shapes.contains(origin)) return false;
    const ir::Equation *end = slice_within(equation, equation.inputs[0]),
                       *begin = slice_within(equation, equation.inputs[1]);
    if (end == nullptr || begin == nullptr || end->inputs[0] != begin->inputs[0]) return false;
    const ir::Var x = end->inputs[0];
    const auto along = static_cast<std::size_t>(equation.params.as<ir::ConcatenateParams>().dimension);
    const auto &first = begin->params.as<ir::SliceParams>(), &last = end->params.as<ir::SliceParams>();
    const std::int64_t cut = last.start_indices[along];
    const bool is_rotation = first.start_indices[along] == 0 && first.limit_indices[along] == cut &&
                             last.limit_indices[along] == program_.aval(x).shape[along];
    if (!is_rotation || padded_[at(x)]) return false;
    set(equation.outputs[0], ir::lax::rotate(plain(x), static_cast<std::int64_t>(along), cut));
    return true;
  }

  /// Values are passed into and out of the programs of an equation without padding, because a carry has one
  /// shape.
  void emit_nested(const ir::Equation& equation) {
    std::vector<std::shared_ptr<const ir::Program>> programs;
    for (const ir::NestedProgram& nested : ir::programs_of(equation))
      programs.push_back(std::make_shared<const ir::Program>(Padding(*nested.program, uneven_).run()));
    std::vector<ir::Value> operands;
    for (ir::Var var : equation.inputs) operands.push_back(plain(var));
    const std::vector<ir::Value> results = builder_.emit(
        *equation.primitive, equation.primitive->nested->with_programs(equation.params, std::move(programs)),
        operands);
    for (std::size_t i = 0; i < results.size(); ++i) set(equation.outputs[i], results[i]);
  }

  const ir::Program& program_;
  const UnevenResults& uneven_;
  ir::Builder builder_;
  const std::vector<const ir::Equation*> made_by_;
  std::vector<std::optional<ir::Value>> plain_, padded_;  // of each variable of the program
};

}  // namespace

bool needs_padding(const ir::Program& program) { return equations_need_padding(program, {}); }

ir::Program with_padding(const ir::Program& program, const ir::AxisEnv& axes, const UnevenResults& uneven) {
  ir::AxisEnvScope scope(axes);
  return Padding(program, uneven).run();
}

}  // namespace lockstep::sharding
