// The part of Lowering that keeps updates from being written into what they are still computed from.

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "lockstep/program/lowering.h"

namespace lockstep {

void Lowering::remember(const Equation& equation, const Names& results) {
  Origin origin{static_cast<int>(origins_.size()), {}, {}};
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) origin.operands.push_back(operand(equation, i));
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Aval& result = result_aval(equation, k);
    origin.views.clear();
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const Aval& aval = operand_aval(equation, i);
      if (aval.dtype == result.dtype && aval.num_elements() == result.num_elements())
        origin.views.push_back(origin.operands[i]);
    }
    origins_.try_emplace(results[k], origin);  // what a program within computed has its own
  }
}

/// Whether the target, or something that it may be another view of, takes part in computing the value.
bool Lowering::is_computed_from(const std::string& value, const std::string& target) const {
  // Where there are more, it is taken for granted.
  constexpr std::size_t kMostVisited = 10'000;
  using Set = std::unordered_set<std::string>;
  int oldest = static_cast<int>(origins_.size());
  auto order_of = [&](const std::string& name) {
    const auto origin = origins_.find(name);
    return origin == origins_.end() ? -1 : origin->second.order;
  };
  auto visit = [&](const std::string& start, Names Origin::*next, auto&& stop) {
    Set seen = {start};
    Names due = {start};
    while (!due.empty()) {
      const std::string name = std::move(due.back());
      due.pop_back();
      if (stop(name) || seen.size() > kMostVisited) return true;
      const auto origin = origins_.find(name);
      if (origin == origins_.end() || origin->second.order < oldest) continue;
      for (const std::string& operand : origin->second.*next) {
        if (seen.insert(operand).second) due.push_back(operand);
      }
    }
    return false;
  };
  Set views;
  int first = oldest;
  oldest = -1;
  if (visit(target, &Origin::views, [&](const std::string& name) {
        views.insert(name);
        first = std::min(first, order_of(name));
        return false;
      }))
    return true;
  oldest = first;
  return visit(value, &Origin::operands, [&](const std::string& name) { return views.contains(name); });
}

Lowering::Names Lowering::operands_of_update(const Equation& equation, std::size_t update) {
  Names names;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) names.push_back(operand(equation, i));
  if (!for_cpu_ || !is_computed_from(names[update], names[0])) return names;
  const std::string type = operand_type(equation, update), function = fresh().substr(1), value = fresh();
  functions_ += fmt::format(
      "  func.func private @computed_{0}(%x: {1}) -> {1} {{\n    return %x : {1}\n  }}\n", function, type);
  line(fmt::format(
      "{} = call @computed_{}({}) {{mhlo.frontend_attributes = {{inlineable = \"false\"}}}} : ({}) -> {}",
      value, function, names[update], type, type));
  names[update] = value;
  return names;
}

}  // namespace lockstep
