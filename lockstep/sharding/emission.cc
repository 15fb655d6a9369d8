// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/emission.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/sharding/windows.h"

namespace lockstep::sharding {

namespace {

using Kind = ReshardStep::Kind;

bool gives_zeros(const ir::Equation& equation, const std::vector<bool>& zeros) {
  if (equation.primitive == &ir::full_p()) return equation.params.as<ir::FullParams>().value.real == 0;
  const auto moved = equation.primitive == &ir::broadcast_in_dim_p() ||
                     equation.primitive == &ir::reshape_p() ||
                     equation.primitive == &ir::convert_element_type_p();
  return moved && zeros[static_cast<std::size_t>(equation.inputs[0])];
}

}  // namespace

Plan plan_of(const FlatProgram& flat, std::span<const RuledEquation> equations, const Grid& grid,
             const std::vector<Split>& wanted, const EnlargedValues& enlarged) {
  const std::size_t variables = flat.program.variables.size();
  Plan plan{flat, equations, grid, wanted, enlarged, flat.uses(), std::vector<bool>(variables), {}};
  plan.full.resize(variables);
  for (const ir::Equation& equation : flat.program.equations) {
    if (equation.primitive == &ir::full_p())
      plan.full[static_cast<std::size_t>(equation.outputs[0])] = &equation;
    if (gives_zeros(equation, plan.zeros)) plan.zeros[static_cast<std::size_t>(equation.outputs[0])] = true;
  }
  return plan;
}

Partitioned Emission::run(std::span<const std::optional<PartitionSpec>> out_specs) {
  ir::AxisEnvScope scope(grid_.env());
  for (ir::Var var : global_.inputs) add_input(var, {wanted(var)});
  emit_steps();
  Partitioned result;
  std::vector<ir::Value> outputs;
  for (std::size_t i = 0; i < global_.outputs.size(); ++i) {
    const ir::Var var = global_.outputs[i];
    const ir::EquationsAt at(builder_, defining_site(var));
    Split split = out_specs[i] ? grid_.split(*out_specs[i], wanted(var).size()) : cheap_split(var);
    outputs.push_back(get(var, {split}, [&](const Layout& from) {
      return move_text(fmt::format("result {} of the program", i), global_.aval(var), from, split, grid_) +
             ": the result must be split so";
    }));
    result.out_specs.push_back(out_specs[i] ? *out_specs[i] : grid_.spec(split));
  }
  result.program = without_varying(builder_.finish(outputs));
  result.warnings = std::move(warnings_);
  return result;
}

ir::Program Emission::run_within(const std::vector<Layout>& inputs, const std::vector<Layout>& outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) add_input(body_.inputs[i], inputs[i]);
  emit_steps();
  std::vector<ir::Value> values;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const ir::Var var = body_.outputs[k];
    const ir::EquationsAt at(builder_, defining_site(var));
    values.push_back(get(var, outputs[k], [&](const Layout& from) {
      return move_text(fmt::format("result {} of {}", k, body_.name), global_.aval(var), from,
                       outputs[k].split, grid_) +
             ": so it goes on";
    }));
  }
  return without_varying(builder_.finish(values));
}

void Emission::add_input(ir::Var var, const Layout& layout) {
  Aval local = global_.aval(var);
  local.shape = grid_.local_shape(local.shape, layout.split);
  local.varying = grid_.varying(layout);
  if (layout.partial) partly_[var] = {};
  add_version(var, layout, builder_.input(std::move(local)));
}

void Emission::emit_steps() {
  for (const FlatBody::Step& step : body_.steps) {
    const ir::EquationsAt at(builder_,
                             step.nested ? step.nested->site : plan_.equations[step.place].equation->site);
    if (step.nested)
      emit_nested(step);
    else
      emit(plan_.equations[step.place]);
  }
}

void Emission::add_version(ir::Var var, Layout layout, const ir::Value& value) {
  versions(var).push_back({std::move(layout), value});
}

std::pair<std::size_t, double> Emission::cheapest(ir::Var var, const Layout& to) {
  std::pair<std::size_t, double> best{0, 0};
  if (full(var) != nullptr) return best;
  const auto& all = versions(var);
  for (std::size_t v = 0; v < all.size(); ++v) {
    const Layout& from = all[v].layout;
    if (to.partial && from.partial && from.partial.combine != to.partial.combine) continue;
    const double c = from == to ? -1  // nothing to write, not even a slice
                                : cost(plan_reshard(from, to, grid_), global_.aval(var), from, grid_);
    if (v == 0 || c < best.second) best = {v, c};
  }
  best.second = std::max(best.second, 0.0);
  return best;
}

ir::Value Emission::get(ir::Var var, const Layout& to, const Why& why) {
  if (full(var) != nullptr && std::ranges::none_of(versions(var), [&](const Version& version) {
        return version.layout.split == to.split && !version.layout.partial;
      }))
    add_version(var, {to.split}, written_full(var, to.split));
  if (const auto again = cheaper_again(var, to)) {
    compute_again(var, again->factors,
                  instead_of_.empty() ? why(versions(var)[cheapest(var, to).first].layout) : instead_of_);
  }
  Version now =
      full(var) != nullptr
          ? *std::ranges::find_if(versions(var),
                                  [&](const Version& version) { return version.layout == Layout{to.split}; })
          : versions(var)[cheapest(var, to).first];
  const Layout from = now.layout;
  std::string reason;
  const std::vector<ReshardStep> steps = plan_reshard(from, to, grid_);
  for (auto step = steps.begin(); step != steps.end();) {
    if (step->kind == Kind::kSlice) {
      auto last =
          std::find_if(step, steps.end(), [](const ReshardStep& s) { return s.kind != Kind::kSlice; });
      now.value = resharder_.slice(now.value, {step, last});
      for (; step != last; ++step) now.layout = step->apply(std::move(now.layout), grid_);
    } else {
      if (step->kind == Kind::kOnce) {
        now.value = plan_.zeros[static_cast<std::size_t>(var)]
                        ? ir::lax::pvary(now.value, grid_.names(step->axes))
                        : resharder_.once(now.value, *step);
      } else if (now.layout.partial) {
        put_together(var, now, *step);
      } else {
        const std::size_t first = builder_.program().equations.size();
        now.value = resharder_.exchange(now.value, *step);
        builder_.explain(first, reason.empty() ? reason = why(from) : reason);
      }
      now.layout = step->apply(std::move(now.layout), grid_);
      now.is_exchanged = now.is_exchanged || step->is_collective();
      ++step;
    }
    if (!grid_.names_parts(now.layout.split)) versions(var).push_back(now);
  }
  if (now.is_exchanged && !now.layout.partial) brought_[var].push_back(now.layout);
  return now.value;
}

ir::Value Emission::written_full(ir::Var var, const Split& split) {
  ir::FullParams params = full(var)->params.as<ir::FullParams>();
  params.shape = grid_.local_shape(global_.aval(var).shape, split);
  return builder_.emit(ir::full_p(), ir::OpParams::of(std::move(params)), {}).front();
}

void Emission::put_together(ir::Var var, Version& now, const ReshardStep& step) {
  const Partly& of = partly_.at(var);
  const std::size_t first = builder_.program().equations.size();
  const ir::EquationsAt at(builder_, of.site);
  now.value = resharder_.exchange(now.value, step);
  builder_.explain(first, of.reason);
}

Split Emission::cheap_split(ir::Var var) {
  return cheapest(var, {wanted(var)}).second == 0 ? wanted(var)
                                                  : reduced_split(versions(var).front().layout, wanted(var));
}

void Emission::place(const ir::Equation& equation) {
  const ir::Var from = equation.inputs[0], to = equation.outputs[0];
  const Split given = placed_split(equation, grid_, global_.aval(to).shape);
  auto brought = [&](const Split& needed, const char* what) {
    return get(from, {needed}, [&](const Layout& now) {
      return move_text(what, global_.aval(from), now, needed, grid_) + ": so its spec asks";
    });
  };
  if (equation.primitive == &ir::to_global_p()) {
    const Split part = behind(wanted(to), given);
    add_version(to, {in_front(given, part)}, brought(part, "a result of shard_map"));
  } else if (equation.primitive == &ir::to_local_p()) {
    add_version(to, {wanted(to)}, brought(in_front(given, wanted(to)), "an argument of shard_map"));
  } else {
    // Unconstrained dimensions keep the split that the propagation gave them.
    const bool open = equation.params.as<ir::PlacementParams>().unconstrained.has_value();
    const Split& needed = open ? wanted(to) : given;
    add_version(to, {needed}, brought(needed, "the operand of with_sharding_constraint"));
  }
}

void Emission::emit(const RuledEquation& ruled) {
  const ir::Equation& equation = *ruled.equation;
  if (ir::is_placement(*equation.primitive)) return place(equation);
  Choice choice = choose_factors(global_, ruled, plan_.wanted, grid_,
                                 {.operand = [&](std::size_t i, const Layout& needed) {
                                   return lowest_cost(equation.inputs[i], needed);
                                 }});
  const Passing passing = passed_on(ruled, choice.factors);
  const std::vector<Axes>& factors = choice.factors;
  ChosenEquation chosen{global_, grid_, ruled, choice, plan_.wanted};
  chosen.compare([&](std::size_t i, const Layout& needed) { return bringing(equation.inputs[i], needed); });
  std::vector<ir::Value> operands;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const ir::Var var = equation.inputs[i];
    const Layout to = needed(ruled, factors, passing, i);
    warn_of_whole(chosen, i, to);
    operands.push_back(get(var, to, [&](const Layout& from) { return chosen.reason_of_operand(i, from); }));
  }
  const std::size_t before = builder_.program().equations.size();
  const std::vector<ir::Value> results = written(ruled, factors, operands);
  if (ruled.rule.write) builder_.explain(before, chosen.reason_of_exchange());
  for (std::size_t i = 0; i < results.size(); ++i) {
    Layout layout = with(ruled.result_layout(i, factors), passing.partial);
    if (layout.partial) partly_[equation.outputs[i]] = why_partial(chosen, i, passing);
    add_version(equation.outputs[i], std::move(layout), results[i]);
  }
}

std::vector<ir::Value> Emission::written(const RuledEquation& ruled, const std::vector<Axes>& factors,
                                         std::span<const ir::Value> operands) {
  const ir::Equation& equation = *ruled.equation;
  std::vector<Shape> operand_shapes, result_shapes;
  for (const ir::Value& operand : operands) operand_shapes.push_back(operand.aval().shape);
  for (std::size_t i = 0; i < equation.outputs.size(); ++i) {
    const Aval& aval = global_.aval(equation.outputs[i]);
    result_shapes.push_back(grid_.local_shape(aval.shape, ruled.result_layout(i, factors).split));
  }
  const bool any_split = std::ranges::any_of(factors, [](const Axes& axes) { return !axes.empty(); });
  ir::OpParams params = any_split && ruled.rule.localize
                            ? ruled.rule.localize(equation.params, operand_shapes, result_shapes)
                            : equation.params;
  if (equation.primitive == &ir::debug_p() && ruled.forbidden.empty()) {
    ir::DebugParams same = params.as<ir::DebugParams>();
    same.once = true;
    params = ir::OpParams::of(std::move(same));
  }
  const bool first_calls = equation.primitive == &ir::io_callback_p() && ruled.forbidden.empty();
  if (first_calls) {
    ir::CallbackParams same = params.as<ir::CallbackParams>();
    same.once = true;
    params = ir::OpParams::of(std::move(same));
  }
  std::vector<ir::Value> results = any_split && ruled.rule.write
                                       ? ruled.rule.write(params, operands, places(ruled, factors))
                                       : builder_.emit(*equation.primitive, std::move(params), operands);
  if (first_calls) {
    // The others have zeros.
    std::vector<std::string> names;
    for (const auto& axis : grid_.env().axes()) names.push_back(axis.first);
    const Axes axes = grid_.axes(names);
    for (ir::Value& result : results) {
      if (axes.empty()) continue;
      const auto how = result.aval().dtype == DType::kBool ? ir::ShardingRule::Combine::kMax
                                                           : ir::ShardingRule::Combine::kSum;
      result =
          resharder_.exchange(ir::lax::pvary(result, grid_.names(axes)), {Kind::kAllReduce, axes, 0, 0, how});
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].aval().shape != result_shapes[i]) {
      fail_internally(
          "[{}] the sharding rule {} gives parts of shape {} where the operation makes {} (at {})",
          equation.primitive->name, ruled.rule.to_string(), to_string(result_shapes[i]),
          to_string(results[i].aval().shape), equation.site.to_string());
    }
  }
  return results;
}

void Emission::warn_of_whole(const ChosenEquation& chosen, std::size_t operand, const Layout& to) {
  constexpr std::int64_t kLarge = 1 << 20;
  const ir::Equation& equation = *chosen.ruled.equation;
  const ir::Var var = equation.inputs[operand];
  if (equation.outputs.empty() || full(var) != nullptr) return;
  const Aval& result = global_.aval(equation.outputs[0]);
  const std::int64_t bytes =
      grid_.local_bytes(result, chosen.ruled.result_layout(0, chosen.choice.factors).split);
  if (bytes < kLarge) return;
  const Layout& from = versions(var)[cheapest(var, to).first].layout;
  Axes repeated;
  for (const Axes& axes : from.split) {
    for (int axis : axes) {
      const bool used =
          std::ranges::any_of(chosen.choice.factors, [axis](const Axes& all) { return contains(all, axis); });
      if (!used && !contains(chosen.ruled.forbidden, axis)) repeated.push_back(axis);
    }
  }
  if (repeated.empty()) return;
  warnings_.push_back(fmt::format("{} at {}: each of the {} devices along {} computes the same {} of {}: {}",
                                  equation.primitive->name, equation.site.to_string(), grid_.size(repeated),
                                  fmt::join(grid_.names(repeated), ","), bytes_text(bytes),
                                  to_string(Aval{result.dtype, result.shape}),
                                  chosen.reason_of_operand(operand, from)));
}

ir::PartPlaces Emission::places(const RuledEquation& ruled, const std::vector<Axes>& factors) {
  auto axes = [&](int factor) -> const Axes& { return factors[static_cast<std::size_t>(factor)]; };
  return {
      .is_split = [=](int factor) { return !axes(factor).empty(); },
      .num_parts = [=, this](int factor) { return grid_.size(axes(factor)); },
      .number = [=, this](int factor, DType dtype) { return resharder_.start(axes(factor), 1, dtype); },
      .start =
          [=, this, &ruled](int factor, DType dtype) {
            const std::int64_t size = ruled.rule.factors[static_cast<std::size_t>(factor)].size;
            return resharder_.start(axes(factor), size / grid_.size(axes(factor)), dtype);
          },
      .window =
          [=, this](const ir::Value& part, std::size_t dimension, int factor, const ir::PartWindows& windows,
                    const std::optional<ir::Value>& fill) {
            return window_of(resharder_, grid_, part, dimension, axes(factor), windows, fill);
          },
      .permute =
          [=, this](const ir::Value& x, int factor, std::vector<std::pair<int, int>> pairs) {
            return ir::lax::ppermute(x, grid_.names(axes(factor)), std::move(pairs));
          },
      .all_to_all =
          [=, this](const ir::Value& x, std::size_t split, std::size_t concat, int factor) {
            return ir::lax::all_to_all(x, grid_.names(axes(factor)), static_cast<std::int64_t>(split),
                                       static_cast<std::int64_t>(concat));
          },
      .all_gather =
          [=, this](const ir::Value& x, std::size_t dimension, int factor) {
            return resharder_.exchange(x, {Kind::kAllGather, axes(factor), dimension});
          },
      .all_reduce =
          [=, this](const ir::Value& x, ir::ShardingRule::Combine combine, int factor) {
            return resharder_.exchange(x, {Kind::kAllReduce, axes(factor), 0, 0, combine});
          },
  };
}

CallSite Emission::defining_site(ir::Var var) const {
  for (const RuledEquation& ruled : plan_.equations) {
    if (std::ranges::find(ruled.equation->outputs, var) != ruled.equation->outputs.end())
      return ruled.equation->site;
  }
  return {};
}

ir::Program Emission::without_varying(ir::Program program) const {
  for (Aval& aval : program.variables) aval.varying.clear();
  const std::vector<bool> needed = needed_equations(program);
  return rewritten(std::move(program), [&](const ir::Program& varying) {
    ir::Rewriter rewriter(varying);
    for (std::size_t e = 0; e < varying.equations.size(); ++e) {
      const ir::Equation& equation = varying.equations[e];
      if (!needed[e]) continue;
      if (equation.primitive == &ir::pvary_p())
        rewriter.replace(equation.outputs[0], rewriter[equation.inputs[0]]);
      else
        rewriter.keep(e);
    }
    return rewriter.finish();
  });
}

}  // namespace lockstep::sharding
