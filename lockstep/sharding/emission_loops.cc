// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/emission.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/elementwise.h"

namespace lockstep::sharding {

Partial Emission::accumulated(std::size_t in, std::size_t out) {
  const ir::Var carry = body_.inputs[in];
  if (plan_.uses.count(carry) != 1) return {};
  return accumulated(carry, body_.outputs[out]);
}

Partial Emission::accumulated(ir::Var carry, ir::Var sum) {
  for (const FlatBody::Step& step : body_.steps) {
    if (step.nested) {
      // The sum of a loop within, which begins with this one's.
      const auto has = [](const std::vector<ir::Var>& vars, ir::Var var) {
        return std::ranges::find(vars, var) != vars.end();
      };
      if (has(step.nested->outputs, sum) && has(step.nested->inputs, carry))
        return versions(sum).front().layout.partial;
      continue;
    }
    const ir::Equation& equation = *plan_.equations[step.place].equation;
    if (equation.primitive != &ir::add_p() || equation.outputs[0] != sum) continue;
    for (std::size_t i : {0U, 1U}) {
      const ir::Var one = equation.inputs[i], other = equation.inputs[1 - i];
      if (one == carry) return versions(other).front().layout.partial;
      if (const Partial partial = accumulated(carry, one)) return partial;
    }
  }
  return {};
}

std::vector<Emission::Written::Sum> Emission::sums_behind(const LoopValues& values,
                                                          const std::vector<Layout>& inputs) {
  std::vector<Written::Sum> sums;
  for (const auto& [in, out] : values.carries) {
    const Partial partial = accumulated(in, out);
    if (partial.combine != Partial::Combine::kSum || !disjoint(inputs[in].split, partial.axes)) continue;
    sums.push_back({in, out, partial, {}});
  }
  return sums;
}

std::vector<Emission::Brought> Emission::brought_before(const LoopValues& values) {
  std::vector<Brought> all;
  for (std::size_t in : values.constants) {
    const ir::Var var = body_.inputs[in];
    const auto found = brought_.find(var);
    if (found == brought_.end()) continue;
    const Layout& from = versions(var).front().layout;
    Brought most{in, {}, 0};
    for (const Layout& layout : found->second) {
      const double saved = cost(plan_reshard(from, layout, grid_), global_.aval(var), from, grid_);
      if (saved > most.saved) most = {in, layout, saved};
    }
    if (most.saved > 0) all.push_back(std::move(most));
  }
  std::ranges::stable_sort(all, std::greater<>(), &Brought::saved);
  std::int64_t left = plan_.gathered_for_loops_bytes;
  std::erase_if(all, [&](const Brought& brought) {
    const std::int64_t bytes =
        grid_.local_bytes(global_.aval(body_.inputs[brought.in]), brought.layout.split);
    if (bytes > left) return true;
    left -= bytes;
    return false;
  });
  return all;
}

bool Emission::is_used_within(const FlatBody::Step& step, const ir::NestedLink& link) const {
  return plan_.uses.is_used(step.bodies[static_cast<std::size_t>(link.to_program)].inputs[link.to]);
}

Emission::LoopValues Emission::loop_values(const FlatBody::Step& step, std::span<const ir::NestedLink> links,
                                           int program) const {
  using Link = ir::NestedLink;
  LoopValues values;
  const bool is_loop = std::ranges::any_of(links, [](const Link& link) {
    return link.kind == Link::Kind::kSlice ||
           (link.from_program != Link::kEquation && link.from_program == link.to_program);
  });
  if (!is_loop) return values;
  for (const Link& link : links) {
    if (link.from_program == program && link.to_program == program) {
      const std::vector<Link> uses = ir::uses_within(links, program, link.from);
      const bool is_own = std::ranges::none_of(uses, [&](const Link& use) {
        return use.to_program != program && use.to_program != Link::kEquation && is_used_within(step, use);
      });
      if (is_own) values.carries.emplace_back(link.to, link.from);
    }
    if (link.from_program != Link::kEquation || link.to_program != program || link.kind != Link::Kind::kSame)
      continue;
    const bool has_other_source = std::ranges::any_of(links, [&](const Link& other) {
      return &other != &link && other.to_program == program && other.to == link.to;
    });
    if (!has_other_source && ir::uses_within(links, Link::kEquation, link.from).size() == 1)
      values.constants.push_back(link.to);
  }
  return values;
}

Emission::Written Emission::write_within(const FlatBody& body, std::vector<Layout> inputs,
                                         std::vector<Layout> outputs, const LoopValues& values) {
  Written written{.inputs = inputs, .outputs = outputs};
  Emission first(plan_, body);
  written.program = std::make_shared<const ir::Program>(first.run_within(inputs, outputs));
  written.warnings = std::move(first.warnings_);
  std::vector<Written::Sum> sums = first.sums_behind(values, inputs);
  std::vector<Brought> brought = first.brought_before(values);
  for (const Brought& each : brought) inputs[each.in] = each.layout;
  while (!sums.empty() || !brought.empty()) {
    for (const Written::Sum& sum : sums) inputs[sum.in].partial = outputs[sum.out].partial = sum.partial;
    Emission again(plan_, body);
    Written other{.inputs = inputs, .outputs = outputs};
    other.program = std::make_shared<const ir::Program>(again.run_within(inputs, outputs));
    other.warnings = std::move(again.warnings_);
    const std::size_t before = sums.size();
    std::erase_if(sums, [&](Written::Sum& sum) {
      const ir::Var var = body.outputs[sum.out];
      const bool stays = again.versions(var).front().layout == outputs[sum.out];
      if (stays) sum.why = again.partly_.at(var);
      if (!stays) inputs[sum.in].partial = outputs[sum.out].partial = {};
      return !stays;
    });
    if (sums.size() != before) continue;
    other.sums = std::move(sums);
    return other;
  }
  return written;
}

void Emission::emit_nested(const FlatBody::Step& step) {
  using Link = ir::NestedLink;
  const ir::Equation& equation = *step.nested;
  const ir::NestedRules& rules = *equation.primitive->nested;
  const std::vector<Link> links = rules.links(equation.params);
  std::vector<Split> operands, results;
  for (ir::Var var : equation.inputs) operands.emplace_back(global_.aval(var).shape.size());
  for (ir::Var var : equation.outputs) results.push_back(wanted(var));
  std::vector<std::vector<Split>> inputs, outputs;
  for (const FlatBody& body : step.bodies) {
    auto& in = inputs.emplace_back();
    auto& out = outputs.emplace_back();
    for (ir::Var var : body.inputs) in.push_back(wanted(var));
    for (ir::Var var : body.outputs) out.emplace_back(global_.aval(var).shape.size());
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
  std::vector<Written> written;
  std::vector<std::shared_ptr<const ir::Program>> programs;
  for (std::size_t p = 0; p < step.bodies.size(); ++p) {
    Written& each = written.emplace_back(write_within(step.bodies[p], layouts(inputs[p]), layouts(outputs[p]),
                                                      loop_values(step, links, static_cast<int>(p))));
    for (const Written::Sum& sum : each.sums) {
      for (const Link& use : ir::uses_within(links, static_cast<int>(p), sum.out)) {
        if (use.to_program == Link::kEquation) partly_[equation.outputs[use.to]] = sum.why;
      }
    }
    warnings_.insert(warnings_.end(), each.warnings.begin(), each.warnings.end());
    programs.push_back(std::move(each.program));
  }
  std::vector<Layout> given = layouts(operands), got = layouts(results);
  take_layouts(step, links, written, given, got);
  std::vector<ir::Value> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ir::Var var = equation.inputs[i];
    values.push_back(get(var, given[i], [&](const Layout& from) {
      return move_text(fmt::format("operand {} of {}", i, equation.primitive->name), global_.aval(var), from,
                       given[i].split, grid_) +
             ": so it is used within";
    }));
  }
  values =
      builder_.emit(*equation.primitive, rules.with_programs(equation.params, std::move(programs)), values);
  for (std::size_t i = 0; i < values.size(); ++i) add_version(equation.outputs[i], got[i], values[i]);
}

void Emission::take_layouts(const FlatBody::Step& step, std::span<const ir::NestedLink> links,
                            std::span<const Written> written, std::vector<Layout>& given,
                            std::vector<Layout>& got) const {
  using Link = ir::NestedLink;
  const auto at = [&](int program) -> const Written& { return written[static_cast<std::size_t>(program)]; };
  const auto whole = [](Layout layout, Link::Kind kind) {
    if (kind != Link::Kind::kSame) layout.split.insert(layout.split.begin(), Axes());
    return layout;
  };
  for (const Link& link : links) {
    const bool is_operand = link.from_program == Link::kEquation,
               is_result = link.to_program == Link::kEquation;
    if (!is_result && !is_used_within(step, link)) continue;
    if (is_operand) given[link.from] = whole(at(link.to_program).inputs[link.to], link.kind);
    if (is_result) got[link.to] = whole(at(link.from_program).outputs[link.from], link.kind);
  }
  for (const Link& link : links) {
    const bool is_operand = link.from_program == Link::kEquation,
               is_result = link.to_program == Link::kEquation;
    if (!is_result && !is_used_within(step, link)) continue;
    const Layout& from =
        is_operand ? given[link.from] : whole(at(link.from_program).outputs[link.from], link.kind);
    const Layout& to = is_result ? got[link.to] : whole(at(link.to_program).inputs[link.to], link.kind);
    if (from == to) continue;
    const ir::Var var = is_result ? step.nested->outputs[link.to]
                                  : step.bodies[static_cast<std::size_t>(link.to_program)].inputs[link.to];
    fail_internally("{}, but both ends must have one layout (at {})",
                    move_text(fmt::format("[{}] a value within the equation", step.nested->primitive->name),
                              global_.aval(var), from, to.split, grid_),
                    step.nested->site.to_string());
  }
}

std::vector<Layout> Emission::layouts(const std::vector<Split>& splits) {
  std::vector<Layout> all;
  for (const Split& split : splits) all.push_back({split});
  return all;
}

}  // namespace lockstep::sharding
