#include "lockstep/sharding/partitioner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/call_site_reset.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/flatten.h"
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
  Emission(const FlatProgram& flat, const FlatBody& body, std::span<const RuledEquation> equations,
           const Grid& grid, const std::vector<Split>& wanted)
      : flat_(flat),
        body_(body),
        global_(flat.program),
        equations_(equations),
        grid_(grid),
        wanted_(wanted),
        builder_(body.name),
        resharder_(builder_, grid),
        versions_(global_.variables.size()) {}

  Partitioned run(std::span<const std::optional<PartitionSpec>> out_specs) {
    AxisEnvScope scope(grid_.env());
    for (Var var : global_.inputs) add_input(var, wanted(var));
    emit_steps();
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

  /// A program that another holds, with inputs and outputs split like this.
  std::shared_ptr<const Program> run_within(const std::vector<Split>& inputs,
                                            const std::vector<Split>& outputs,
                                            CommunicationReasons& reasons) {
    CallSiteReset reset;
    for (std::size_t i = 0; i < inputs.size(); ++i) add_input(body_.inputs[i], inputs[i]);
    emit_steps();
    std::vector<Value> values;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Var var = body_.outputs[k];
      values.push_back(get(var, outputs[k], [&](const Split& from) {
        return move_text(fmt::format("result {} of {}", k, body_.name), global_.aval(var), from, outputs[k],
                         grid_) +
               ": so it goes on";
      }));
      sites_.resize(builder_.program().equations.size(), defining_site(body_.outputs[k]));
    }
    CommunicationReasons within;
    auto program = std::make_shared<const Program>(without_varying(builder_.finish(values), within));
    for (auto& [place, reason] : within)
      reasons[{place.first ? place.first : program.get(), place.second}] = std::move(reason);
    return program;
  }

 private:
  struct Version {
    Split split;
    Value value;
  };

  void add_input(Var var, const Split& split) {
    Aval local = global_.aval(var);
    local.shape = grid_.local_shape(local.shape, split);
    local.varying = grid_.varying(split);
    add_version(var, split, builder_.input(std::move(local)));
  }

  void emit_steps() {
    for (const FlatBody::Step& step : body_.steps) {
      if (step.nested)
        emit_nested(step);
      else
        emit(equations_[step.place]);
      sites_.resize(builder_.program().equations.size(),
                    step.nested ? step.nested->site : equations_[step.place].equation->site);
    }
  }

  /// Each device runs the programs that the equation holds on its parts: a carry has one split all the way,
  /// and what decides is whole.
  void emit_nested(const FlatBody::Step& step) {
    using Link = NestedLink;
    const Equation& equation = *step.nested;
    const NestedRules& rules = *equation.primitive->nested;
    const std::vector<Link> links = rules.links(equation.params);
    std::vector<Split> operands, results;
    for (Var var : equation.inputs) operands.emplace_back(global_.aval(var).shape.size());
    for (Var var : equation.outputs) results.push_back(wanted(var));
    std::vector<std::vector<Split>> inputs, outputs;
    for (const FlatBody& body : step.bodies) {
      auto& in = inputs.emplace_back();
      auto& out = outputs.emplace_back();
      for (Var var : body.inputs) in.push_back(wanted(var));
      for (Var var : body.outputs) out.emplace_back(global_.aval(var).shape.size());
    }
    auto at = [](std::vector<std::vector<Split>>& splits, int program, std::size_t i) -> Split& {
      return splits[static_cast<std::size_t>(program)][i];
    };
    auto stacked = [](Split split) {
      split.insert(split.begin(), Axes());
      return split;
    };
    auto element = [](const Split& split) { return Split(split.begin() + 1, split.end()); };
    for (const Link& link : links) {
      if (link.from_program != Link::kEquation || !is_whole(operands[link.from])) continue;
      const Split& wish = at(inputs, link.to_program, link.to);
      operands[link.from] = link.kind == Link::Kind::kSlice ? stacked(wish) : wish;
    }
    for (const Link& link : links) {
      if (link.from_program != Link::kEquation) continue;
      at(inputs, link.to_program, link.to) =
          link.kind == Link::Kind::kSlice ? element(operands[link.from]) : operands[link.from];
    }
    for (const Link& link : links) {
      if (link.from_program == Link::kEquation || link.to_program != Link::kEquation) continue;
      if (link.kind == Link::Kind::kStack) results[link.to] = stacked(element(results[link.to]));
      at(outputs, link.from_program, link.from) =
          link.kind == Link::Kind::kStack ? element(results[link.to]) : results[link.to];
    }
    for (const Link& link : links) {
      if (link.from_program == Link::kEquation || link.to_program == Link::kEquation) continue;
      at(outputs, link.from_program, link.from) = at(inputs, link.to_program, link.to);
    }
    for (const Link& link : links) {
      if (link.from_program != Link::kEquation && link.to_program == Link::kEquation &&
          link.kind == Link::Kind::kSame)
        results[link.to] = at(outputs, link.from_program, link.from);
    }
    std::vector<std::shared_ptr<const Program>> programs;
    for (std::size_t p = 0; p < step.bodies.size(); ++p) {
      programs.push_back(Emission(flat_, step.bodies[p], equations_, grid_, wanted_)
                             .run_within(inputs[p], outputs[p], within_));
    }
    CallSiteScope site(equation.site);
    std::vector<Value> values;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Var var = equation.inputs[i];
      values.push_back(get(var, operands[i], [&](const Split& from) {
        return move_text(fmt::format("operand {} of {}", i, equation.primitive->name), global_.aval(var),
                         from, operands[i], grid_) +
               ": so it is used within";
      }));
    }
    values =
        builder_.emit(*equation.primitive, rules.with_programs(equation.params, std::move(programs)), values);
    for (std::size_t i = 0; i < values.size(); ++i) add_version(equation.outputs[i], results[i], values[i]);
  }

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
      const Split part = behind(wanted(to), given);
      add_version(to, in_front(given, part), brought(part, "a result of shard_map"));
    } else if (equation.primitive == &to_local_p()) {
      add_version(to, wanted(to), brought(in_front(given, wanted(to)), "an argument of shard_map"));
    } else {
      // Dimensions of which the spec says nothing are as the propagation left them.
      const bool open = equation.params.as<PlacementParams>().unconstrained.has_value();
      const Split& needed = open ? wanted(to) : given;
      add_version(to, needed, brought(needed, "the operand of with_sharding_constraint"));
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
    if (equation.primitive == &debug_p() && ruled.forbidden.empty()) {
      DebugParams same = params.as<DebugParams>();
      same.once = true;
      params = OpParams::of(std::move(same));
    }
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
      if (auto reason = reasons_.find(e); reason != reasons_.end())
        reasons[{nullptr, kept.size()}] = reason->second;
      kept.push_back(std::move(equation));
    }
    reasons.insert(within_.begin(), within_.end());
    program.equations = std::move(kept);
    rename(program.outputs);
    for (Aval& aval : program.variables) aval.varying.clear();
    return program;
  }

  const FlatProgram& flat_;
  const FlatBody& body_;
  const Program& global_;  // the flat one
  std::span<const RuledEquation> equations_;
  const Grid& grid_;
  const std::vector<Split>& wanted_;
  Builder builder_;
  Resharder resharder_;
  std::vector<std::vector<Version>> versions_;  // of each global variable; the first is as it was computed
  std::vector<CallSite> sites_;                 // of each equation in the builder
  std::map<std::size_t, std::string> reasons_;  // by the place in the builder
  CommunicationReasons within_;                 // of the programs that its equations hold
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
  const FlatProgram flat = flatten(global);
  std::vector<Split> splits;
  for (const Aval& aval : flat.program.variables) splits.emplace_back(aval.shape.size());
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
  std::vector<bool> has_split(splits.size(), false);
  for (Var var : global.inputs) has_split[static_cast<std::size_t>(var)] = true;
  for (std::size_t i = 0; i < global.outputs.size(); ++i) {
    if (!options.out_specs[i]) continue;
    const auto var = static_cast<std::size_t>(global.outputs[i]);
    Split split = place(global.outputs[i], *options.out_specs[i], "output", i);
    if (has_split[var]) continue;
    has_split[var] = true;
    splits[var] = std::move(split);
  }
  for (const Equation& equation : flat.program.equations) {
    all_whole = all_whole && equation.primitive != &debug_p();  // one device prints
    if (!is_placement(*equation.primitive)) continue;
    all_whole = false;
    const Var from = equation.inputs[0], to = equation.outputs[0];
    const Split split = placed_split(equation, grid, flat.program.aval(to).shape);
    auto set = [&](Var var) {
      has_split[static_cast<std::size_t>(var)] = true;
      splits[static_cast<std::size_t>(var)] = split;
    };
    // A result is as its placement says, whatever a later one asks of it; an operand as the first one asks.
    if (equation.primitive != &to_local_p()) set(to);
    if (equation.primitive != &to_global_p() && !has_split[static_cast<std::size_t>(from)]) set(from);
  }
  if (all_whole) {
    Partitioned same{global, {}, {}};
    for (const auto& spec : options.out_specs) same.out_specs.push_back(spec.value_or(PartitionSpec()));
    return same;
  }
  const std::vector<RuledEquation> equations = ruled_equations(flat.program, grid);
  propagate(flat.program, equations, grid, splits);
  return Emission(flat, flat.body, equations, grid, splits).run(options.out_specs);
}

}  // namespace lockstep::sharding
