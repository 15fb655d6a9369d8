// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/early_pads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/all_are.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/by_element.h"
#include "lockstep/transforms/dce.h"

namespace lockstep::transforms {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::size_t kMostEquations = 256;  // before one pad

/// What computes a pad's operand: elementwise operations on slices, in the program's order. Empty if it is
/// something else, or if another equation needs one of their results as well.
class PaddedComputation {
 public:
  PaddedComputation(const ir::Program& program, const ir::Uses& uses,
                    const std::vector<const ir::Equation*>& made_by)
      : program_(program), uses_(uses), made_by_(made_by) {}

  std::vector<std::size_t> of(std::size_t pad) const {
    std::vector<std::size_t> places;
    std::vector<ir::Var> due = {program_.equations[pad].inputs[0]};
    const Shape& shape = program_.aval(due[0]).shape;
    bool has_slice = false;
    while (!due.empty()) {
      const ir::Equation* const equation = made_by_[static_cast<std::size_t>(due.back())];
      due.pop_back();
      if (equation == nullptr || program_.aval(equation->outputs[0]).shape != shape) return {};
      const auto place = static_cast<std::size_t>(equation - program_.equations.data());
      if (std::ranges::find(places, place) != places.end()) continue;
      if (places.size() == kMostEquations) return {};
      places.push_back(place);
      if (equation->primitive == &ir::slice_p()) {
        if (!all_are(equation->params.as<ir::SliceParams>().strides, 1)) return {};
        has_slice = true;
      } else if (equation->primitive->by_element) {
        due.insert(due.end(), equation->inputs.begin(), equation->inputs.end());
      } else if (!is_number(*equation)) {
        return {};
      }
    }
    if (!has_slice) return {};
    std::ranges::sort(places);
    const bool is_needed_here_only = std::ranges::all_of(places, [&](std::size_t place) {
      const ir::Equation& equation = program_.equations[place];
      return !equation.primitive->by_element ||
             std::ranges::all_of(uses_.of(equation.outputs[0]), [&](std::size_t user) {
               return user == pad || std::ranges::binary_search(places, user);
             });
    });
    return is_needed_here_only ? places : std::vector<std::size_t>();
  }

 private:
  bool is_number(const ir::Equation& equation) const {
    return equation.primitive == &ir::full_p() || (equation.primitive == &ir::broadcast_in_dim_p() &&
                                                   program_.aval(equation.inputs[0]).shape.empty());
  }

  const ir::Program& program_;
  const ir::Uses& uses_;
  const std::vector<const ir::Equation*>& made_by_;
};

/// Bools of this shape: which places are not padding.
ir::Value is_inside(const ir::Value& like, const Shape& shape, const ir::PadParams& pad) {
  using namespace ir::lax;
  std::optional<ir::Value> inside;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (pad.low[d] == 0 && pad.high[d] == 0) continue;
    const DType dtype = place_dtype(shape[d]);
    const ir::Value places = iota(like, dtype, {shape[d]}, 0);
    auto place = [&](std::int64_t n) { return full(places, ir::Scalar::of(n), dtype, {shape[d]}); };
    const ir::Value along =
        logical_and(ge(places, place(pad.low[d])), lt(places, place(shape[d] - pad.high[d])));
    const ir::Value whole = broadcast_in_dim(along, shape, {static_cast<std::int64_t>(d)});
    inside = inside ? logical_and(*inside, whole) : whole;
  }
  return *inside;
}

class EarlyPads {
 public:
  EarlyPads(ir::Rewriter& rewriter, const ir::Program& program)
      : rewriter_(rewriter),
        program_(program),
        uses_(program),
        made_by_(ir::equations_of_variables(program)) {}

  std::optional<ir::Program> run() {
    const PaddedComputation computation(program_, uses_, made_by_);
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      std::vector<std::size_t> places;
      if (may_be_early(program_.equations[e])) places = computation.of(e);
      if (places.empty()) {
        rewriter_.keep(e);
        continue;
      }
      const ir::EquationsAt at(rewriter_.builder(), program_.equations[e].site);
      rewriter_.replace(program_.equations[e].outputs[0], padded(program_.equations[e], places));
    }
    return rewriter_.finish();
  }

 private:
  bool may_be_early(const ir::Equation& equation) const {
    if (equation.primitive != &ir::pad_p()) return false;
    const auto& pad = equation.params.as<ir::PadParams>();
    auto adds = [](const Integers& numbers) {
      return std::ranges::all_of(numbers, [](std::int64_t n) { return n >= 0; });
    };
    const ir::Var result = equation.outputs[0];
    const std::int64_t size = program_.aval(result).num_elements();
    return all_are(pad.interior, 0) && adds(pad.low) && adds(pad.high) &&
           size > program_.aval(equation.inputs[0]).num_elements() &&
           size <= 2 * program_.aval(equation.inputs[0]).num_elements() &&
           is_read_by_elements(program_, uses_, result);
  }

  ir::Value padded(const ir::Equation& equation, const std::vector<std::size_t>& places) {
    const auto& pad = equation.params.as<ir::PadParams>();
    const Shape& shape = program_.aval(equation.outputs[0]).shape;
    const ir::Value fill = rewriter_[equation.inputs[1]];
    std::vector<std::pair<ir::Var, ir::Value>> values;
    auto value_of = [&](ir::Var var) {
      return std::ranges::find(values, var, &std::pair<ir::Var, ir::Value>::first)->second;
    };
    for (std::size_t place : places) {
      const ir::Equation& made = program_.equations[place];
      const ir::EquationsAt at(rewriter_.builder(), made.site);
      values.emplace_back(made.outputs[0], larger(made, pad, shape, value_of));
    }
    return ir::lax::select(is_inside(fill, shape, pad), values.back().second,
                           ir::lax::broadcast_in_dim(fill, shape, {}));
  }

  /// The result of an equation that belongs to the computation, in the shape of the pad's result. What is in
  /// the places of the padding is not used.
  template <class ValueOf>
  ir::Value larger(const ir::Equation& made, const ir::PadParams& pad, const Shape& shape,
                   const ValueOf& value_of) {
    if (made.primitive->by_element) {
      std::vector<ir::Value> operands;
      for (ir::Var var : made.inputs) operands.push_back(value_of(var));
      return std::move(rewriter_.builder().emit(*made.primitive, made.params, operands).front());
    }
    if (made.primitive == &ir::broadcast_in_dim_p())
      return ir::lax::broadcast_in_dim(rewriter_[made.inputs[0]], shape, {});
    if (made.primitive == &ir::full_p()) {
      const auto& number = made.params.as<ir::FullParams>();
      return ir::lax::full(rewriter_[made.outputs[0]], number.value, number.dtype, shape, number.weak_type);
    }
    const ir::Value x = rewriter_[made.inputs[0]];
    const auto& start = made.params.as<ir::SliceParams>().start_indices;
    Integers low, high;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      low.push_back(pad.low[d] - start[d]);
      high.push_back(shape[d] - x.aval().shape[d] - low[d]);
    }
    if (all_are(low, 0) && all_are(high, 0)) return x;
    const ir::Value zero = ir::rules::zeros(x, {x.aval().dtype, {}});
    return ir::lax::pad(x, zero, low, high, Integers(shape.size()));
  }

  ir::Rewriter& rewriter_;
  const ir::Program& program_;
  const ir::Uses uses_;
  const std::vector<const ir::Equation*> made_by_;
};

std::optional<ir::Program> with_early_pads(const ir::Program& program) {
  ir::Rewriter rewriter(program, with_early_pads);
  std::optional<ir::Program> result = EarlyPads(rewriter, program).run();
  if (result) result = eliminate_dead_code(std::move(*result));
  return result;
}

}  // namespace

ir::Program early_pads(ir::Program program, const ir::AxisEnv& axes) {
  const ir::AxisEnvScope scope(axes);
  return ir::rewritten(std::move(program), with_early_pads);
}

}  // namespace lockstep::transforms
