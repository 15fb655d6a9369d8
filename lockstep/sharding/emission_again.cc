// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/emission.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/program/primitive.h"

namespace lockstep::sharding {

std::optional<ComputedAgain> Emission::cheaper_again(ir::Var var, const Layout& to) {
  if (to.partial || plan_.enlarged.maker(var) == nullptr) return std::nullopt;
  const double moving = cheapest(var, to).second;
  if (moving == 0) return std::nullopt;
  return plan_.enlarged.again(var, to.split, moving, [this](ir::Var each, const Layout& needed) {
    return cheapest(each, needed).second;
  });
}

double Emission::lowest_cost(ir::Var var, const Layout& to) {
  const auto again = cheaper_again(var, to);
  return again ? again->cost : cheapest(var, to).second;
}

void Emission::compute_again(ir::Var var, const std::vector<Axes>& factors, const std::string& instead_of) {
  const RuledEquation& ruled = *plan_.enlarged.maker(var);
  const ir::Equation& equation = *ruled.equation;
  const std::string outer = std::exchange(instead_of_, instead_of);
  std::vector<ir::Value> operands;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const Layout to = ruled.operand_layout(i, factors);
    operands.push_back(get(equation.inputs[i], to, [&](const Layout& from) {
      return fmt::format("{}, and what is made of it is computed again instead of moved: {}",
                         move_text(fmt::format("operand {} of {}", i, equation.primitive->name),
                                   global_.aval(equation.inputs[i]), from, to.split, grid_),
                         instead_of);
    }));
  }
  instead_of_ = outer;
  const ir::EquationsAt at(builder_, equation.site);
  const ir::Value value = written(ruled, factors, operands).front();
  add_version(var, ruled.result_layout(0, factors), value);
  computed_again_ = true;
}

Bringing Emission::bringing(ir::Var var, const Layout& to) {
  if (full(var) != nullptr) return {to};
  Bringing bringing{versions(var)[cheapest(var, to).first].layout};
  if (const auto again = cheaper_again(var, to))
    add_moves_again(var, again->factors, bringing.moves_again.emplace());
  return bringing;
}

void Emission::add_moves_again(ir::Var var, const std::vector<Axes>& factors,
                               std::vector<Bringing::Move>& moves) {
  const RuledEquation& ruled = *plan_.enlarged.maker(var);
  const ir::Equation& equation = *ruled.equation;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const ir::Var input = equation.inputs[i];
    const Layout to = ruled.operand_layout(i, factors);
    if (full(input) != nullptr) continue;
    if (const auto again = cheaper_again(input, to)) {
      add_moves_again(input, again->factors, moves);
      continue;
    }
    const Layout& from = versions(input)[cheapest(input, to).first].layout;
    Bringing::Move move{fmt::format("operand {} of {} from {} to {}", i, equation.primitive->name,
                                    layout_text(from, grid_), layout_text(to, grid_)),
                        received_bytes(plan_reshard(from, to, grid_), global_.aval(input), from, grid_)};
    if (std::ranges::find(moves, move) == moves.end()) moves.push_back(std::move(move));
  }
}

std::vector<bool> Emission::needed_equations(const ir::Program& program) const {
  std::vector<bool> needed(program.equations.size(), !computed_again_);
  if (!computed_again_) return needed;
  std::vector<bool> is_used(program.variables.size());
  for (ir::Var var : program.outputs) is_used[static_cast<std::size_t>(var)] = true;
  for (std::size_t e = program.equations.size(); e-- > 0;) {
    const ir::Equation& equation = program.equations[e];
    needed[e] = ir::has_effect(equation) || std::ranges::any_of(equation.outputs, [&](ir::Var var) {
                  return is_used[static_cast<std::size_t>(var)];
                });
    if (!needed[e]) continue;
    for (ir::Var var : equation.inputs) is_used[static_cast<std::size_t>(var)] = true;
  }
  return needed;
}

}  // namespace lockstep::sharding
