// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/emission.h"

#include <algorithm>
#include <limits>

namespace lockstep::sharding {

Layout Emission::with(Layout layout, const Partial& more) {
  if (!more) return layout;
  layout.partial.combine = more.combine;
  layout.partial.axes.insert(layout.partial.axes.end(), more.axes.begin(), more.axes.end());
  std::ranges::sort(layout.partial.axes);
  return layout;
}

Emission::Passing Emission::passed_on(const RuledEquation& ruled, std::vector<Axes>& factors) {
  const ir::Equation& equation = *ruled.equation;
  for (const std::vector<std::size_t>& group : equation.primitive->linear.together) {
    std::vector<std::size_t> operands = group;
    for (std::size_t i = 0; group.empty() && i < equation.inputs.size(); ++i) operands.push_back(i);
    const Passing passing = partial_among(equation, operands);
    if (!passing.partial) continue;
    // The axes over which it stays partial must not split anything.
    std::vector<Axes> without = factors;
    for (Axes& axes : without)
      axes.erase(std::ranges::find_if(axes, [&](int axis) { return contains(passing.partial.axes, axis); }),
                 axes.end());
    const double now = way_cost(ruled, factors, {}), then = way_cost(ruled, without, passing);
    if (then > now || (then == now && !moves_or_scales(equation, operands))) continue;
    factors = std::move(without);
    return passing;
  }
  return {};
}

bool Emission::moves_or_scales(const ir::Equation& equation, const std::vector<std::size_t>& operands) const {
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const bool is_operand = std::ranges::find(operands, i) != operands.end();
    if (!is_operand && full(equation.inputs[i]) == nullptr) return false;
  }
  return true;
}

Emission::Passing Emission::partial_among(const ir::Equation& equation,
                                          const std::vector<std::size_t>& operands) {
  const Aval& result = global_.aval(equation.outputs[0]);
  Passing passing;
  for (std::size_t i : operands) {
    const ir::Var var = equation.inputs[i];
    if (plan_.zeros[static_cast<std::size_t>(var)]) continue;
    const Aval& aval = global_.aval(var);
    const Partial& partial = versions(var).front().layout.partial;
    // Sums of whole numbers and of fewer bits are other sums.
    if (!partial || plan_.uses.count(var) != 1 || !is_inexact(aval.dtype) || !is_inexact(result.dtype) ||
        size_of(result.dtype) < size_of(aval.dtype))
      return {};
    if (partial.combine != Partial::Combine::kSum && !equation.primitive->linear.moves) return {};
    if (passing.partial && passing.partial != partial) return {};
    passing.partial = partial;
    passing.operands.push_back(i);
  }
  return passing;
}

double Emission::way_cost(const RuledEquation& ruled, const std::vector<Axes>& factors,
                          const Passing& passing) {
  const ir::Equation& equation = *ruled.equation;
  double sum = 0;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i)
    sum += lowest_cost(equation.inputs[i], needed(ruled, factors, passing, i));
  const Layout own = ruled.result_layout(0, factors), end{wanted(equation.outputs[0])};
  if (own.partial && passing.partial && own.partial.combine != passing.partial.combine)
    return std::numeric_limits<double>::infinity();
  const Layout result = with(own, passing.partial);
  return sum + cost(plan_reshard(result, end, grid_), global_.aval(equation.outputs[0]), result, grid_);
}

Emission::Partly Emission::why_partial(const ChosenEquation& chosen, std::size_t i,
                                       const Passing& passing) const {
  const ir::Equation& equation = *chosen.ruled.equation;
  const Axes own = chosen.ruled.result_layout(i, chosen.choice.factors).partial.axes;
  for (std::size_t operand : passing.operands) {
    const auto of = partly_.find(equation.inputs[operand]);
    if (own.empty() && of != partly_.end() && !of->second.reason.empty()) return of->second;
  }
  return {chosen.reason_of_result(i, own.empty() ? passing.partial.axes : own), equation.site};
}

Layout Emission::needed(const RuledEquation& ruled, const std::vector<Axes>& factors, const Passing& passing,
                        std::size_t i) const {
  Layout layout = ruled.operand_layout(i, factors);
  const bool zeros = plan_.zeros[static_cast<std::size_t>(ruled.equation->inputs[i])];
  if (zeros && layout.partial.combine == Partial::Combine::kSum) layout.partial = {};
  if (std::ranges::find(passing.operands, i) != passing.operands.end()) layout.partial = passing.partial;
  return layout;
}

}  // namespace lockstep::sharding
