// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/enlarged.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lockstep/program/cost.h"
#include "lockstep/program/primitive.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {
namespace {

/// Whether the equation only moves elements, or computes each one from the operands' elements at its
/// position.
bool is_simple(const ir::Program& program, const RuledEquation& ruled) {
  const ir::Equation& equation = *ruled.equation;
  const ir::ShardingRule& rule = ruled.rule;
  if (equation.outputs.size() != 1 || rule.factors.empty() || !rule.addends.empty() ||
      !ir::is_light(program, equation))
    return false;
  if (cost_of(program, equation).flops == 0) return true;
  return std::ranges::all_of(
      rule.operands, [&](const std::vector<int>& dims) { return dims.empty() || dims == rule.results[0]; });
}

/// The axes of the factors with which the equation makes its result in this split, as far as it can: the rest
/// is sliced. None if the split has axes that must not split anything here.
std::optional<std::vector<Axes>> factors_for(const RuledEquation& ruled, const Split& to, const Grid& grid) {
  std::vector<Axes> factors(ruled.sizes.size());
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (!disjoint(to[d], ruled.forbidden)) return std::nullopt;
    const int factor = ruled.rule.results[0][d];
    if (factor == ir::ShardingRule::kWhole) continue;
    const auto f = static_cast<std::size_t>(factor);
    if (ruled.sizes[f].empty() || ruled.rule.factors[f].exchanged) continue;
    factors[f] = to[d];
    while (std::ranges::any_of(ruled.sizes[f],
                               [&](std::int64_t size) { return size % grid.size(factors[f]) != 0; }))
      factors[f].pop_back();
  }
  return factors;
}

}  // namespace

/// One search. What has been brought to a split once is there for further uses.
class EnlargedValues::Search {
 public:
  Search(const EnlargedValues& values, const Moving& moving) : values_(values), moving_(moving) {}

  std::optional<ComputedAgain> again(ir::Var var, const Split& to) {
    constexpr int kMostVisits = 64;
    const RuledEquation* maker = values_.maker(var);
    if (maker == nullptr || ++visits_ > kMostVisits) return std::nullopt;
    std::optional<std::vector<Axes>> factors = factors_for(*maker, to, values_.grid_);
    if (!factors) return std::nullopt;
    const Shape& shape = values_.program_.aval(var).shape;
    const Split made = maker->result_layout(0, *factors).split;
    double cost = static_cast<double>(num_elements(values_.grid_.local_shape(shape, made))) / kFlopsPerByte;
    const std::vector<ir::Var>& inputs = maker->equation->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      cost += bring(inputs[i], maker->operand_layout(i, *factors).split);
    return ComputedAgain{std::move(*factors), cost};
  }

 private:
  /// The lowest cost to have the value in the split, too.
  double bring(ir::Var var, const Split& to) {
    const std::pair value(var, to);
    if (std::ranges::find(brought_, value) != brought_.end()) return 0;
    double cost = moving_(var, {to});
    if (cost > 0) {
      const std::size_t before = brought_.size();
      const auto way = again(var, to);
      if (way && way->cost < cost)
        cost = way->cost;
      else
        brought_.resize(before);
    }
    brought_.push_back(value);
    return cost;
  }

  const EnlargedValues& values_;
  const Moving& moving_;
  std::vector<std::pair<ir::Var, Split>> brought_;
  int visits_ = 0;
};

EnlargedValues::EnlargedValues(const FlatProgram& flat, std::span<const RuledEquation> equations,
                               const Grid& grid)
    : program_(flat.program), grid_(grid), makers_(program_.variables.size()) {
  std::vector<std::int64_t> least;  // of each value, the bytes from which it can be made
  for (const Aval& aval : program_.variables) least.push_back(aval.bytes());
  for (std::size_t e = 0; e < equations.size(); ++e) {
    const ir::Equation& equation = *equations[e].equation;
    if (flat.origins[e] == nullptr || !is_simple(program_, equations[e])) continue;
    const auto made = static_cast<std::size_t>(equation.outputs[0]);
    std::int64_t bytes = 0;
    for (auto input = equation.inputs.begin(); input != equation.inputs.end(); ++input) {
      if (std::find(equation.inputs.begin(), input, *input) == input)
        bytes += least[static_cast<std::size_t>(*input)];
    }
    if (bytes > least[made]) continue;
    least[made] = bytes;
    makers_[made] = &equations[e];
  }
}

std::optional<ComputedAgain> EnlargedValues::again(ir::Var var, const Split& to, double limit,
                                                   const Moving& moving) const {
  if (maker(var) == nullptr) return std::nullopt;
  std::optional<ComputedAgain> way = Search(*this, moving).again(var, to);
  if (way && way->cost >= limit) way.reset();
  return way;
}

}  // namespace lockstep::sharding
