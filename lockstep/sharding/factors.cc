// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/factors.h"

#include <algorithm>
#include <utility>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/manual_axes.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {
namespace {

using Combine = ir::ShardingRule::Combine;

/// A list of axes that a factor may get, and the bytes of the values that have it so.
struct Option {
  Axes axes;
  std::int64_t bytes = 0;
  bool is_free_choice = false;  ///< it costs something to take it: not taken merely because it can be
};

Split split_of(const std::vector<int>& dims, const std::vector<Axes>& factors) {
  Split split(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != ir::ShardingRule::kWhole) split[d] = factors[static_cast<std::size_t>(dims[d])];
  }
  return split;
}

bool names(const std::vector<int>& dims, int factor) { return std::ranges::find(dims, factor) != dims.end(); }

/// Whether each device can compute with its part of the factor.
bool can_split(const ir::ShardingRule& rule, int factor) {
  bool in_operands = false;
  for (const auto& dims : rule.operands) {
    if (std::ranges::count(dims, factor) > 1) return false;
    in_operands = in_operands || names(dims, factor);
  }
  for (const auto& dims : rule.results) {
    if (std::ranges::count(dims, factor) > 1) return false;
    const ir::ShardingRule::Factor& of = rule.factors[static_cast<std::size_t>(factor)];
    if (in_operands && !names(dims, factor) && of.combine == Combine::kNone && !of.is_completed) return false;
  }
  return true;
}

bool divides(std::int64_t n, const std::vector<std::int64_t>& sizes) {
  return !sizes.empty() && std::ranges::all_of(sizes, [n](std::int64_t size) { return size % n == 0; });
}

void add_axes(Axes& axes, const Axes& more) {
  for (int axis : more) {
    const auto place = std::ranges::lower_bound(axes, axis);
    if (place == axes.end() || *place != axis) axes.insert(place, axis);
  }
}

/// The search over the factors' options.
class Search {
 public:
  Search(const ir::Program& program, const RuledEquation& ruled, const std::vector<Split>& splits,
         const Grid& grid, const ChoiceCosts& costs)
      : program_(program),
        ruled_(ruled),
        splits_(splits),
        grid_(grid),
        costs_(costs),
        options_(ruled.sizes.size()) {}

  void add(const std::vector<int>& dims, const Split& split, std::int64_t bytes) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == ir::ShardingRule::kWhole) continue;
      const auto factor = static_cast<std::size_t>(dims[d]);
      for (std::size_t n = 1; n <= split[d].size(); ++n) {
        Axes axes(split[d].begin(), split[d].begin() + static_cast<std::ptrdiff_t>(n));
        if (contains(ruled_.forbidden, axes.back()) || !divides(grid_.size(axes), ruled_.sizes[factor]))
          break;
        auto found = std::ranges::find(options_[factor], axes, &Option::axes);
        if (found == options_[factor].end())
          options_[factor].push_back(
              {std::move(axes), bytes, ruled_.rule.factors[factor].exchanged != nullptr});
        else
          found->bytes += bytes;
      }
    }
  }

  /// Adds options: axes that split a dimension that must be whole, or one that may move, may split another
  /// one of the operand instead.
  void add_moves(const std::vector<int>& dims, const Split& split, std::int64_t bytes) {
    auto splittable = [&](std::size_t d) {
      return dims[d] != ir::ShardingRule::kWhole && !ruled_.sizes[static_cast<std::size_t>(dims[d])].empty();
    };
    auto may_move = [&](int factor) {
      return ruled_.rule.factors[static_cast<std::size_t>(factor)].may_move;
    };
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (split[d].empty() || (splittable(d) && !may_move(dims[d]))) continue;
      for (std::size_t e = 0; e < dims.size(); ++e) {
        if (e == d || !splittable(e)) continue;
        const auto factor = static_cast<std::size_t>(dims[e]);
        Axes axes = split[e];
        axes.insert(axes.end(), split[d].begin(), split[d].end());
        if (std::ranges::any_of(axes, [&](int axis) { return contains(ruled_.forbidden, axis); }) ||
            !divides(grid_.size(axes), ruled_.sizes[factor]) ||
            std::ranges::find(options_[factor], axes, &Option::axes) != options_[factor].end())
          continue;
        options_[factor].push_back({std::move(axes), bytes, true});
      }
    }
  }

  Choice run() {
    std::vector<Axes> factors(options_.size());
    std::size_t ways = 1;
    for (auto& options : options_) {
      std::ranges::stable_sort(options, [](const Option& a, const Option& b) {
        return a.axes.size() != b.axes.size() ? a.axes.size() > b.axes.size() : a.bytes > b.bytes;
      });
      ways = std::min<std::size_t>(ways * (options.size() + 1), kMaxWays + 1);
    }
    if (ways == 1) return {std::move(factors), std::nullopt};
    if (ways > kMaxWays) return {greedy(), std::nullopt};
    flops_ = flops_of_whole();
    visit(0, factors);
    return {std::move(best_), std::move(second_)};
  }

 private:
  static constexpr std::size_t kMaxWays = 4096;

  bool is_free(const Axes& axes, std::size_t from, const std::vector<Axes>& factors) const {
    return std::all_of(axes.begin() + static_cast<std::ptrdiff_t>(from), axes.end(), [&](int axis) {
      return std::ranges::none_of(factors, [axis](const Axes& taken) { return contains(taken, axis); });
    });
  }

  bool can_grow(const std::vector<Axes>& factors) const {
    for (std::size_t f = 0; f < factors.size(); ++f) {
      for (const Option& option : options_[f]) {
        if (!option.is_free_choice && option.axes.size() > factors[f].size() &&
            is_prefix(factors[f], option.axes) && is_free(option.axes, factors[f].size(), factors))
          return true;
      }
    }
    return false;
  }

  void visit(std::size_t factor, std::vector<Axes>& factors) {
    if (factor == factors.size()) {
      if (can_grow(factors)) return;
      const double cost = total(factors);
      if (best_.empty() || cost < best_cost_) {
        if (!best_.empty()) second_ = std::move(best_);
        best_ = factors;
        second_cost_ = std::exchange(best_cost_, cost);
      } else if (!second_ || cost < second_cost_) {
        second_ = factors;
        second_cost_ = cost;
      }
      return;
    }
    for (const Option& option : options_[factor]) {
      if (!is_free(option.axes, 0, factors)) continue;
      factors[factor] = option.axes;
      visit(factor + 1, factors);
      factors[factor].clear();
    }
    visit(factor + 1, factors);
  }

  /// The options of the largest values first.
  std::vector<Axes> greedy() const {
    std::vector<Axes> factors(options_.size());
    for (;;) {
      const Option* best = nullptr;
      std::size_t at = 0;
      for (std::size_t f = 0; f < factors.size(); ++f) {
        for (const Option& option : options_[f]) {
          if (!option.is_free_choice && option.axes.size() > factors[f].size() &&
              is_prefix(factors[f], option.axes) && is_free(option.axes, factors[f].size(), factors) &&
              (!best || option.bytes > best->bytes)) {
            best = &option;
            at = f;
          }
        }
      }
      if (!best) return factors;
      factors[at] = best->axes;
    }
  }

  double total(const std::vector<Axes>& factors) const {
    double sum = 0;
    for (std::size_t i = 0; i < ruled_.rule.operands.size(); ++i) {
      const ReceivedWithin within = received_within(program_, ruled_, i, factors, grid_);
      sum += costs_.operand(i, ruled_.operand_layout(i, factors)) + within.bytes +
             kPerCollective * within.collectives;
      // Elements that are gathered for this operation only are of no use to others.
      if (within.collectives > 0) sum += 1;
    }
    for (std::size_t i = 0; i < ruled_.rule.results.size(); ++i) sum += result_cost(i, factors);
    return sum + computing_cost(factors);
  }

  /// A device's computing, in bytes: axes that split no factor have all their devices compute the same.
  double computing_cost(const std::vector<Axes>& factors) const {
    double parts = 1;
    for (const Axes& axes : factors) parts *= static_cast<double>(grid_.size(axes));
    return flops_ / parts / kFlopsPerByte;
  }

  double flops_of_whole() const {
    std::vector<Aval> inputs, outputs;
    for (ir::Var var : ruled_.equation->inputs) inputs.push_back(program_.aval(var));
    for (ir::Var var : ruled_.equation->outputs) outputs.push_back(program_.aval(var));
    return ruled_.equation->primitive->flops(inputs, outputs, ruled_.equation->params);
  }

  double result_cost(std::size_t i, const std::vector<Axes>& factors) const {
    const ir::Var var = ruled_.equation->outputs[i];
    const Aval& aval = program_.aval(var);
    const Split& wanted = splits_[static_cast<std::size_t>(var)];
    const Layout computed = ruled_.result_layout(i, factors);
    if (!computed.partial && computed.split == wanted) return 0;
    const Split reduced = reduced_split(computed, wanted);
    bool grows = costs_.results_may_grow;
    for (std::size_t d = 0; d < wanted.size(); ++d) grows = grows && is_prefix(wanted[d], reduced[d]);
    return cost(plan_reshard(computed, {grows ? reduced : wanted}, grid_), aval, computed, grid_);
  }

  const ir::Program& program_;
  const RuledEquation& ruled_;
  const std::vector<Split>& splits_;
  const Grid& grid_;
  const ChoiceCosts& costs_;
  std::vector<std::vector<Option>> options_;  // of each factor, besides none
  std::vector<Axes> best_;
  std::optional<std::vector<Axes>> second_;
  double best_cost_ = 0, second_cost_ = 0;
  double flops_ = 0;
};

}  // namespace

Layout RuledEquation::operand_layout(std::size_t i, const std::vector<Axes>& factors) const {
  Layout layout{split_of(rule.operands[i], factors)};
  if (std::ranges::find(rule.addends, i) != rule.addends.end())
    layout.partial = result_layout(0, factors).partial;
  return layout;
}

Layout RuledEquation::result_layout(std::size_t i, const std::vector<Axes>& factors) const {
  Layout layout{split_of(rule.results[i], factors)};
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].empty() || rule.factors[f].is_completed || names(rule.results[i], static_cast<int>(f)))
      continue;
    layout.partial.combine = rule.factors[f].combine;
    layout.partial.axes.insert(layout.partial.axes.end(), factors[f].begin(), factors[f].end());
  }
  std::ranges::sort(layout.partial.axes);
  return layout;
}

ReceivedWithin received_within(const ir::Program& program, const RuledEquation& ruled, std::size_t i,
                               const std::vector<Axes>& factors, const Grid& grid) {
  ReceivedWithin received;
  const std::vector<int>& dims = ruled.rule.operands[i];
  const Aval& aval = program.aval(ruled.equation->inputs[i]);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == ir::ShardingRule::kWhole) continue;
    const auto factor = static_cast<std::size_t>(dims[d]);
    if (factors[factor].empty() || !ruled.rule.factors[factor].exchanged) continue;
    const std::int64_t parts = grid.size(factors[factor]);
    const ir::Exchanged exchanged = ruled.rule.factors[factor].exchanged(i, parts);
    const auto here = static_cast<double>(grid.local_bytes(aval, ruled.operand_layout(i, factors).split));
    const std::int64_t size = std::max<std::int64_t>(aval.shape[d] / parts, 1);
    received.bytes += here * static_cast<double>(exchanged.elements) / static_cast<double>(size);
    received.collectives += static_cast<double>(exchanged.collectives);
  }
  return received;
}

std::vector<RuledEquation> ruled_equations(const ir::Program& program, const Grid& grid) {
  std::vector<RuledEquation> all;
  const std::vector<Axes> manual = manual_axes(program, grid);
  std::vector<Axes> local(program.variables.size());  // the axes along which a value is one device's
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& equation = program.equations[e];
    std::vector<Aval> inputs, outputs;
    for (ir::Var var : equation.inputs) inputs.push_back(program.aval(var));
    for (ir::Var var : equation.outputs) outputs.push_back(program.aval(var));
    RuledEquation& ruled =
        all.emplace_back(&equation, equation.primitive->sharding(inputs, outputs, equation.params));
    for (const Aval& aval : inputs) add_axes(ruled.forbidden, grid.axes(aval.varying));
    for (const Aval& aval : outputs) add_axes(ruled.forbidden, grid.axes(aval.varying));
    for (ir::Var var : equation.inputs) add_axes(ruled.forbidden, local[static_cast<std::size_t>(var)]);
    add_axes(ruled.forbidden, grid.axes(equation.primitive->exchange(equation.params).axes));
    add_axes(ruled.forbidden, manual[e]);
    Axes inside = ruled.forbidden;
    if (equation.primitive == &ir::to_global_p())
      std::erase_if(inside, [&](int axis) { return contains(manual[e], axis); });
    for (ir::Var var : equation.outputs) local[static_cast<std::size_t>(var)] = inside;
    const ir::ShardingRule& rule = ruled.rule;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
      const int factor = static_cast<int>(f);
      std::vector<std::int64_t>& sizes = ruled.sizes.emplace_back();
      if (!can_split(rule, factor)) continue;
      sizes.push_back(rule.factors[f].size);
      auto add = [&](const std::vector<int>& dims, const Shape& shape) {
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (dims[d] == factor) sizes.push_back(shape[d]);
        }
      };
      for (std::size_t i = 0; i < inputs.size(); ++i) add(rule.operands[i], inputs[i].shape);
      for (std::size_t i = 0; i < outputs.size(); ++i) add(rule.results[i], outputs[i].shape);
    }
  }
  return all;
}

Choice choose_factors(const ir::Program& program, const RuledEquation& ruled,
                      const std::vector<Split>& splits, const Grid& grid, const ChoiceCosts& costs) {
  const ir::Equation& equation = *ruled.equation;
  Search search(program, ruled, splits, grid, costs);
  auto add = [&](ir::Var var, const std::vector<int>& dims) {
    const Split& split = splits[static_cast<std::size_t>(var)];
    if (!is_whole(split)) search.add(dims, split, program.aval(var).bytes());
  };
  // The first of several ways with the same cost wins: an operand that is moved needs no buffer besides the
  // result's.
  for (std::size_t i = 0; i < equation.outputs.size(); ++i) add(equation.outputs[i], ruled.rule.results[i]);
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) add(equation.inputs[i], ruled.rule.operands[i]);
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const ir::Var var = equation.inputs[i];
    search.add_moves(ruled.rule.operands[i], splits[static_cast<std::size_t>(var)],
                     program.aval(var).bytes());
  }
  return search.run();
}

}  // namespace lockstep::sharding
