#include "lockstep/sharding/partitioner.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/padding.h"
#include "lockstep/sharding/propagation.h"
#include "lockstep/sharding/reasons.h"
#include "lockstep/sharding/reshard.h"
#include "lockstep/sharding/split.h"
#include "lockstep/sharding/validation.h"

namespace lockstep::sharding {
namespace {

using Combine = ShardingRule::Combine;
using Kind = ReshardStep::Kind;

/// Writes the per-device program, equation by equation.
class Emission {
 public:
  Emission(const Program& global, std::span<const RuledEquation> equations, const Grid& grid,
           const std::vector<Split>& wanted)
      : global_(global),
        equations_(equations),
        grid_(grid),
        wanted_(wanted),
        builder_(global.name),
        resharder_(builder_, grid),
        versions_(global.variables.size()) {}

  Partitioned run(std::span<const std::optional<PartitionSpec>> out_specs) {
    AxisEnvScope scope(grid_.env());
    for (Var var : global_.inputs) {
      const Split& split = wanted(var);
      Aval local = global_.aval(var);
      local.shape = grid_.local_shape(local.shape, split);
      local.varying = grid_.varying(split);
      add_version(var, split, builder_.input(std::move(local)));
    }
    for (const RuledEquation& equation : equations_) {
      emit(equation);
      sites_.resize(builder_.program().equations.size(), equation.equation->site);
    }
    Partitioned result;
    std::vector<Value> outputs;
    for (std::size_t i = 0; i < global_.outputs.size(); ++i) {
      const Var var = global_.outputs[i];
      Split split = out_specs[i] ? grid_.split(*out_specs[i], wanted(var).size()) : cheap_split(var);
      outputs.push_back(get(var, split, [&](const Split& from) {
        return move_text(fmt::format("result {} of the program", i), global_.aval(var), from, split, grid_) +
               ": so the result shall lie";
      }));
      result.out_specs.push_back(out_specs[i] ? *out_specs[i] : grid_.spec(split));
      sites_.resize(builder_.program().equations.size(), defining_site(var));
    }
    result.program = without_varying(builder_.finish(outputs), result.reasons);
    return result;
  }

 private:
  struct Version {
    Split split;
    Value value;
  };

  const Split& wanted(Var var) const { return wanted_[static_cast<std::size_t>(var)]; }
  std::vector<Version>& versions(Var var) { return versions_[static_cast<std::size_t>(var)]; }

  void add_version(Var var, Split split, const Value& value) {
    versions(var).push_back({std::move(split), value});
  }

  /// The version from which a split is got for the least, and that cost.
  std::pair<std::size_t, double> cheapest(Var var, const Split& to) {
    std::pair<std::size_t, double> best{0, 0};
    const auto& all = versions(var);
    for (std::size_t v = 0; v < all.size(); ++v) {
      const double c = all[v].split == to
                           ? -1  // nothing to write, not even a slice
                           : cost(plan_reshard(all[v].split, to), global_.aval(var), all[v].split, grid_);
      if (v == 0 || c < best.second) best = {v, c};
    }
    best.second = std::max(best.second, 0.0);
    return best;
  }

  /// Why a value is brought from a split to the one that is asked for.
  using Why = std::function<std::string(const Split& from)>;

  /// The variable with this split. Every version on the way is kept for later uses.
  Value get(Var var, const Split& to, const Why& why) {
    Version now = versions(var)[cheapest(var, to).first];
    const Split from = now.split;
    std::string reason;
    const std::vector<ReshardStep> steps = plan_reshard(from, to);
    for (auto step = steps.begin(); step != steps.end();) {
      if (step->kind == Kind::kSlice) {
        auto last =
            std::find_if(step, steps.end(), [](const ReshardStep& s) { return s.kind != Kind::kSlice; });
        now.value = resharder_.slice(now.value, {step, last});
        for (; step != last; ++step) now.split = step->apply(std::move(now.split));
      } else {
        now.value = resharder_.exchange(now.value, *step);
        note(reason.empty() ? reason = why(from) : reason);
        now.split = step->apply(std::move(now.split));
        ++step;
      }
      versions(var).push_back(now);
    }
    return now.value;
  }

  /// Keeps the reason of the last equation, a collective.
  void note(std::string reason) { reasons_[builder_.program().equations.size() - 1] = std::move(reason); }

  /// What is wanted, if it is there for nothing; else as the variable was computed.
  Split cheap_split(Var var) {
    return cheapest(var, wanted(var)).second == 0 ? wanted(var) : versions(var).front().split;
  }

  /// A placement is done by the split that its operand or result has. Axes that are not manual stay as they
  /// are behind those of the placement.
  void place(const Equation& equation) {
    const Var from = equation.inputs[0], to = equation.outputs[0];
    const Split given = placed_split(equation, grid_, global_.aval(to).shape);
    CallSiteScope site(equation.site);
    auto brought = [&](const Split& needed, const char* what) {
      return get(from, needed, [&](const Split& now) {
        return move_text(what, global_.aval(from), now, needed, grid_) + ": so its spec asks";
      });
    };
    if (equation.primitive == &to_global_p()) {
      add_version(to, wanted(to), brought(behind(wanted(to), given), "a result of shard_map"));
    } else if (equation.primitive == &to_local_p()) {
      add_version(to, wanted(to), brought(in_front(given, wanted(to)), "an argument of shard_map"));
    } else {
      add_version(to, given, brought(given, "the operand of with_sharding_constraint"));
    }
  }

  void emit(const RuledEquation& ruled) {
    const Equation& equation = *ruled.equation;
    if (is_placement(*equation.primitive)) return place(equation);
    const Choice choice =
        choose_factors(global_, ruled, wanted_, grid_, {.operand = [&](std::size_t i, const Split& needed) {
                         return cheapest(equation.inputs[i], needed).second;
                       }});
    const std::vector<Axes>& factors = choice.factors;
    ChosenEquation chosen{global_, grid_, ruled, choice, wanted_};
    chosen.compare([&](std::size_t i, const Split& needed) {
      const Var var = equation.inputs[i];
      return versions(var)[cheapest(var, needed).first].split;
    });
    CallSiteScope site(equation.site);
    std::vector<Value> operands;
    std::vector<Shape> operand_shapes, result_shapes;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      operands.push_back(get(equation.inputs[i], ruled.operand_split(i, factors),
                             [&](const Split& from) { return chosen.reason_of_operand(i, from); }));
      operand_shapes.push_back(operands.back().aval().shape);
    }
    for (std::size_t i = 0; i < equation.outputs.size(); ++i) {
      const Aval& aval = global_.aval(equation.outputs[i]);
      result_shapes.push_back(grid_.local_shape(aval.shape, ruled.result_split(i, factors)));
    }
    const bool any_split = std::ranges::any_of(factors, [](const Axes& axes) { return !axes.empty(); });
    OpParams params = any_split && ruled.rule.localize
                          ? ruled.rule.localize(equation.params, operand_shapes, result_shapes)
                          : equation.params;
    std::vector<Value> results = builder_.emit(*equation.primitive, std::move(params), operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].aval().shape != result_shapes[i]) {
        fail<Error>(
            "[{}] the sharding rule {} gives parts of shape {} where the operation makes {} (at {}): this is "
            "an error of Lockstep's own",
            equation.primitive->name, ruled.rule.to_string(), to_string(result_shapes[i]),
            to_string(results[i].aval().shape), equation.site.to_string());
      }
      combine(chosen, i, results[i]);
    }
  }

  /// Puts the partial results of the devices together.
  void combine(const ChosenEquation& chosen, std::size_t i, Value value) {
    const RuledEquation& ruled = chosen.ruled;
    const std::vector<Axes>& factors = chosen.choice.factors;
    const Var var = ruled.equation->outputs[i];
    auto axes_of = [&](Combine combine) { return ruled.partial_axes(i, combine, factors); };
    CombinePlan plan = plan_combine(ruled.result_split(i, factors), axes_of(Combine::kSum), wanted(var));
    std::string reason;
    auto put_together = [&](const Value& whole) {
      value = whole;
      note(reason.empty() ? reason = chosen.reason_of_result(i) : reason);
    };
    for (const Scatter& scatter : plan.scatters)
      put_together(
          lax::psum_scatter(value, grid_.names(scatter.axes), static_cast<std::int64_t>(scatter.dimension)));
    if (!plan.all_reduce.empty()) put_together(lax::psum(value, grid_.names(plan.all_reduce)));
    if (Axes axes = axes_of(Combine::kMax); !axes.empty()) put_together(lax::pmax(value, grid_.names(axes)));
    if (Axes axes = axes_of(Combine::kMin); !axes.empty()) put_together(lax::pmin(value, grid_.names(axes)));
    add_version(var, std::move(plan.split), value);
  }

  CallSite defining_site(Var var) const {
    for (const RuledEquation& ruled : equations_) {
      if (std::ranges::find(ruled.equation->outputs, var) != ruled.equation->outputs.end())
        return ruled.equation->site;
    }
    return {};
  }

  /// From here on nothing asks over which axes a value varies: pvary goes, and so do the marks. The equations
  /// get the call sites of those that they came from, whatever scope is around the partitioner.
  Program without_varying(Program program, CommunicationReasons& reasons) const {
    std::vector<Var> same(program.variables.size());
    for (std::size_t v = 0; v < same.size(); ++v) same[v] = static_cast<Var>(v);
    auto rename = [&same](std::vector<Var>& vars) {
      for (Var& var : vars) var = same[static_cast<std::size_t>(var)];
    };
    std::vector<Equation> kept;
    for (std::size_t e = 0; e < program.equations.size(); ++e) {
      Equation& equation = program.equations[e];
      rename(equation.inputs);
      equation.site = sites_[e];
      if (equation.primitive == &pvary_p()) {
        same[static_cast<std::size_t>(equation.outputs[0])] = equation.inputs[0];
        continue;
      }
      if (auto reason = reasons_.find(e); reason != reasons_.end()) reasons[kept.size()] = reason->second;
      kept.push_back(std::move(equation));
    }
    program.equations = std::move(kept);
    rename(program.outputs);
    for (Aval& aval : program.variables) aval.varying.clear();
    return program;
  }

  const Program& global_;
  std::span<const RuledEquation> equations_;
  const Grid& grid_;
  const std::vector<Split>& wanted_;
  Builder builder_;
  Resharder resharder_;
  std::vector<std::vector<Version>> versions_;  // of each global variable; the first is as it was computed
  std::vector<CallSite> sites_;                 // of each equation in the builder
  CommunicationReasons reasons_;                // by the place in the builder
};

}  // namespace

Partitioned partition(const Program& global, const PartitionOptions& options) {
  if (options.in_specs.size() != global.inputs.size() || options.out_specs.size() != global.outputs.size()) {
    fail<ShardingError>("[partition] {} has {} inputs and {} outputs, but {} and {} specs were given",
                        global.name, global.inputs.size(), global.outputs.size(), options.in_specs.size(),
                        options.out_specs.size());
  }
  if (needs_padding(global)) return partition(with_padding(global, options.axes), options);
  const Grid grid(options.axes);
  std::vector<Split> splits;
  for (const Aval& aval : global.variables) splits.emplace_back(aval.shape.size());
  bool all_whole = true;
  auto place = [&](Var var, const PartitionSpec& spec, std::string_view kind, std::size_t i) {
    check_divisible(global.aval(var), spec, options.axes, fmt::format("{} {} of {}", kind, i, global.name));
    Split split = grid.split(spec, global.aval(var).shape.size());
    all_whole = all_whole && is_whole(split);
    return split;
  };
  for (std::size_t i = 0; i < global.inputs.size(); ++i)
    splits[static_cast<std::size_t>(global.inputs[i])] =
        place(global.inputs[i], options.in_specs[i], "input", i);
  std::vector<bool> has_split(global.variables.size(), false);
  for (Var var : global.inputs) has_split[static_cast<std::size_t>(var)] = true;
  for (std::size_t i = 0; i < global.outputs.size(); ++i) {
    if (!options.out_specs[i]) continue;
    const auto var = static_cast<std::size_t>(global.outputs[i]);
    Split split = place(global.outputs[i], *options.out_specs[i], "output", i);
    if (has_split[var]) continue;
    has_split[var] = true;
    splits[var] = std::move(split);
  }
  for (const Equation& equation : global.equations) {
    if (!is_placement(*equation.primitive)) continue;
    all_whole = false;
    const Var from = equation.inputs[0], to = equation.outputs[0];
    const Split split = placed_split(equation, grid, global.aval(to).shape);
    const bool local = equation.primitive == &to_local_p();
    if (!local) splits[static_cast<std::size_t>(to)] = split;
    if (equation.primitive == &to_global_p() || has_split[static_cast<std::size_t>(from)]) continue;
    has_split[static_cast<std::size_t>(from)] = true;
    splits[static_cast<std::size_t>(from)] = split;
  }
  if (all_whole) {
    Partitioned same{global, {}, {}};
    for (const auto& spec : options.out_specs) same.out_specs.push_back(spec.value_or(PartitionSpec()));
    return same;
  }
  const std::vector<RuledEquation> equations = ruled_equations(global, grid);
  propagate(global, equations, grid, splits);
  return Emission(global, equations, grid, splits).run(options.out_specs);
}

}  // namespace lockstep::sharding
