// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/uses.h"

#include <algorithm>
#include <iterator>

namespace lockstep::ir {

Uses::Uses(const Program& program, std::span<const Var> outputs) : first_(program.variables.size() + 1) {
  const auto each = [&](const auto& visit) {
    for (std::size_t e = 0; e < program.equations.size(); ++e)
      for (Var var : program.equations[e].inputs) visit(static_cast<std::size_t>(var), e);
    for (Var var : program.outputs) visit(static_cast<std::size_t>(var), program.equations.size());
    for (Var var : outputs) visit(static_cast<std::size_t>(var), program.equations.size());
  };
  each([&](std::size_t var, std::size_t) { ++first_[var + 1]; });
  for (std::size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
  places_.resize(first_.back());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  each([&](std::size_t var, std::size_t place) { places_[next[var]++] = place; });
}

std::vector<const Equation*> equations_of_variables(const Program& program) {
  std::vector<const Equation*> equations(program.variables.size());
  for (const Equation& equation : program.equations)
    for (Var var : equation.outputs) equations[static_cast<std::size_t>(var)] = &equation;
  return equations;
}

std::vector<NestedLink> uses_within(std::span<const NestedLink> links, int program, std::size_t i) {
  std::vector<NestedLink> found;
  std::ranges::copy_if(links, std::back_inserter(found), [&](const NestedLink& link) {
    return link.from_program == program && link.from == i;
  });
  return found;
}

bool decides(std::span<const NestedLink> links, int program, std::size_t i) {
  return std::ranges::none_of(
      links, [&](const NestedLink& link) { return link.from_program == program && link.from == i; });
}

}  // namespace lockstep::ir
