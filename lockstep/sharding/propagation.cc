// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/propagation.h"

#include <algorithm>

#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {
namespace {

class Propagation {
 public:
  Propagation(const ir::Program& program, std::span<const RuledEquation> equations, const Grid& grid,
              const EnlargedValues& enlarged, std::vector<Split>& splits)
      : program_(program),
        equations_(equations),
        grid_(grid),
        enlarged_(enlarged),
        splits_(splits),
        is_fixed_(program.variables.size(), false),
        closed_(program.variables.size()),
        manual_(program.variables.size()),
        uses_(program.variables.size()),
        forward_(equations.size(), true),
        backward_(equations.size(), true) {
    for (ir::Var var : program.inputs) is_fixed_[static_cast<std::size_t>(var)] = true;
    for (std::size_t e = 0; e < equations.size(); ++e) {
      for (ir::Var var : equations[e].equation->inputs) uses_[static_cast<std::size_t>(var)].push_back(e);
      for (ir::Var var : equations[e].equation->outputs) {
        uses_[static_cast<std::size_t>(var)].push_back(e);
        const ir::Equation& equation = *equations[e].equation;
        if (equation.primitive == &ir::sharding_constraint_p())
          fix(var, equation.params.as<ir::PlacementParams>());
        if (equation.primitive == &ir::to_global_p())
          manual_[static_cast<std::size_t>(var)] = equations[e].forbidden;
      }
    }
  }

  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t e = 0; e < equations_.size(); ++e) changed |= visit(e, forward_, true);
      for (std::size_t e = equations_.size(); e-- > 0;) changed |= visit(e, backward_, false);
    }
  }

 private:
  bool visit(std::size_t e, std::vector<bool>& due, bool forward) {
    if (!due[e]) return false;
    due[e] = false;
    const RuledEquation& ruled = equations_[e];
    const ir::Equation& equation = *ruled.equation;
    auto whole = [&](ir::Var var) { return is_whole(splits_[static_cast<std::size_t>(var)]); };
    if (std::ranges::all_of(equation.inputs, whole) && std::ranges::all_of(equation.outputs, whole))
      return false;
    if (equation.primitive == &ir::to_local_p() || equation.primitive == &ir::to_global_p())
      return visit_placement(ruled, forward);
    if (equation.primitive == &ir::sharding_constraint_p()) return visit_constraint(ruled, forward);

    const std::vector<Axes> factors =
        choose_factors(program_, ruled, splits_, grid_,
                       {.operand = [&](std::size_t i,
                                       const Layout& needed) { return cost_of(equation.inputs[i], needed); },
                        .results_may_grow = true})
            .factors;
    bool changed = false;
    if (forward) {
      for (std::size_t i = 0; i < equation.outputs.size(); ++i)
        changed |= grow(equation.outputs[i], ruled.result_layout(i, factors).split);
    } else {
      for (std::size_t i = 0; i < equation.inputs.size(); ++i)
        changed |= grow(equation.inputs[i], ruled.operand_layout(i, factors).split);
    }
    return changed;
  }

  /// The cost of a value in a layout: it is moved, or computed again.
  double cost_of(ir::Var var, const Layout& to) const {
    const auto moving = [this](ir::Var each, const Layout& needed) {
      const Layout from{splits_[static_cast<std::size_t>(each)]};
      return cost(plan_reshard(from, needed, grid_), program_.aval(each), from, grid_);
    };
    const double moved = moving(var, to);
    if (moved == 0 || to.partial) return moved;
    const auto again = enlarged_.again(var, to.split, moved, moving);
    return again ? again->cost : moved;
  }

  /// The result of a constraint is fixed, except for its unconstrained dimensions.
  void fix(ir::Var var, const ir::PlacementParams& placement) {
    if (!placement.unconstrained) {
      is_fixed_[static_cast<std::size_t>(var)] = true;
      return;
    }
    std::vector<bool>& closed = closed_[static_cast<std::size_t>(var)];
    for (std::size_t d = 0; d < program_.aval(var).shape.size(); ++d)
      closed.push_back(!placement.is_unconstrained(d));
  }

  /// Unconstrained dimensions are propagated through a constraint.
  bool visit_constraint(const RuledEquation& ruled, bool forward) {
    const ir::Equation& equation = *ruled.equation;
    const ir::Var from = equation.inputs[0], to = equation.outputs[0];
    Split through = splits_[static_cast<std::size_t>(forward ? from : to)];
    const auto& placement = equation.params.as<ir::PlacementParams>();
    for (std::size_t d = 0; d < through.size(); ++d) {
      Axes& axes = through[d];
      if (!placement.is_unconstrained(d)) axes.clear();
      auto stop = std::ranges::find_if(axes, [&](int axis) { return contains(ruled.forbidden, axis); });
      axes.erase(stop, axes.end());
    }
    return grow(forward ? to : from, through);
  }

  /// Propagates between the global value and the devices' parts of it: axes that are not manual, after those
  /// of the placement.
  bool visit_placement(const RuledEquation& ruled, bool forward) {
    const ir::Equation& equation = *ruled.equation;
    const bool enters = equation.primitive == &ir::to_local_p();
    const ir::Var from = equation.inputs[0], to = equation.outputs[0], part = enters ? to : from;
    const Split& split = splits_[static_cast<std::size_t>(forward ? from : to)];
    const Split placed = placed_split(equation, grid_, program_.aval(to).shape);
    Split through = enters == forward ? behind(split, placed) : split;
    for (std::size_t d = 0; d < through.size(); ++d) {
      Axes& axes = through[d];
      auto stop = std::ranges::find_if(axes, [&](int axis) { return contains(ruled.forbidden, axis); });
      axes.erase(stop, axes.end());
      while (program_.aval(part).shape[d] % grid_.size(axes) != 0) axes.pop_back();
    }
    return grow(forward ? to : from, enters == forward ? through : in_front(placed, through));
  }

  /// Extends the variable's split, if `to` continues it.
  bool grow(ir::Var var, const Split& to) {
    if (is_fixed_[static_cast<std::size_t>(var)]) return false;
    Split& split = splits_[static_cast<std::size_t>(var)];
    bool changed = false;
    for (std::size_t d = 0; d < split.size(); ++d) {
      const std::vector<bool>& closed = closed_[static_cast<std::size_t>(var)];
      if (!is_prefix(split[d], to[d]) || (!closed.empty() && closed[d])) continue;
      for (int axis : suffix(to[d], split[d].size())) {
        if (contains(manual_[static_cast<std::size_t>(var)], axis) ||
            std::ranges::any_of(split, [axis](const Axes& axes) { return contains(axes, axis); }))
          break;
        split[d].push_back(axis);
        changed = true;
      }
    }
    if (changed) {
      for (std::size_t e : uses_[static_cast<std::size_t>(var)]) forward_[e] = backward_[e] = true;
    }
    return changed;
  }

  const ir::Program& program_;
  std::span<const RuledEquation> equations_;
  const Grid& grid_;
  const EnlargedValues& enlarged_;
  std::vector<Split>& splits_;
  std::vector<bool> is_fixed_;
  std::vector<std::vector<bool>> closed_;       // which dimensions are as a constraint says; empty: none
  std::vector<Axes> manual_;                    // those of the shard_map whose result a variable is
  std::vector<std::vector<std::size_t>> uses_;  // the equations that a variable stands in
  std::vector<bool> forward_, backward_;        // equations to look at again
};

}  // namespace

void propagate(const ir::Program& program, std::span<const RuledEquation> equations, const Grid& grid,
               const EnlargedValues& enlarged, std::vector<Split>& splits) {
  Propagation(program, equations, grid, enlarged, splits).run();
}

}  // namespace lockstep::sharding
