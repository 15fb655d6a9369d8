// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/flatten.h"

#include <algorithm>
#include <utility>

#include "lockstep/program/primitive.h"

namespace lockstep::sharding {
namespace {

/// A way of a value: dimensions correspond from the last on; a leading one that only one side has is whole.
const Primitive& link_p() {
  static const Primitive p = [] {
    Primitive p = {.name = "link", .jvp = zero_tangents};
    p.flops = no_flops;
    p.zero_padding = ZeroPadding::kCounts;
    p.exchange = no_exchange;
    p.sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams&) {
      ShardingRule rule = ShardingRule::replicated(inputs, outputs);
      std::vector<int>&from = rule.operands[0], &to = rule.results[0];
      for (std::size_t d = 0; d < std::min(from.size(), to.size()); ++d) {
        from[from.size() - 1 - d] = to[to.size() - 1 - d] = static_cast<int>(rule.factors.size());
        rule.factors.push_back({inputs[0].shape[from.size() - 1 - d]});
      }
      return rule;
    };
    return p;
  }();
  return p;
}

class Flattening {
 public:
  explicit Flattening(FlatProgram& flat) : flat_(flat), out_(flat.program) {}

  /// `vars` are the flat variables of the program's own.
  FlatBody run(const Program& program, const std::vector<Var>& vars) {
    auto flat = [&](const std::vector<Var>& own) {
      std::vector<Var> all;
      for (Var var : own) all.push_back(vars[static_cast<std::size_t>(var)]);
      return all;
    };
    FlatBody body{program.name, flat(program.inputs), flat(program.outputs), {}};
    for (const Equation& equation : program.equations) {
      Equation copy = equation;
      copy.inputs = flat(equation.inputs);
      copy.outputs = flat(equation.outputs);
      if (equation.primitive->nested) {
        body.steps.push_back(nested(std::move(copy)));
      } else {
        FlatBody::Step step;
        step.place = out_.equations.size();
        out_.equations.push_back(std::move(copy));
        flat_.origins.push_back(&equation);
        body.steps.push_back(std::move(step));
      }
    }
    return body;
  }

 private:
  FlatBody::Step nested(Equation equation) {
    const NestedRules& rules = *equation.primitive->nested;
    const std::vector<NestedProgram> programs = rules.programs(equation.params);
    const std::vector<NestedLink> links = rules.links(equation.params);
    std::vector<std::vector<Var>> vars;
    for (const NestedProgram& nested : programs) {
      std::vector<Var>& own = vars.emplace_back();
      for (const Aval& aval : nested.program->variables) {
        own.push_back(static_cast<Var>(out_.variables.size()));
        out_.variables.push_back(aval);
      }
    }
    auto input = [&](int program, std::size_t i) {
      const auto p = static_cast<std::size_t>(program);
      return vars[p][static_cast<std::size_t>(programs[p].program->inputs[i])];
    };
    auto output = [&](int program, std::size_t i) {
      const auto p = static_cast<std::size_t>(program);
      return vars[p][static_cast<std::size_t>(programs[p].program->outputs[i])];
    };
    auto link = [&](Var from, Var to) {
      out_.equations.push_back({&link_p(), {}, {from}, {to}, equation.site});
      flat_.origins.push_back(nullptr);
    };
    FlatBody::Step step;
    for (const NestedLink& l : links) {
      if (l.from_program == NestedLink::kEquation) link(equation.inputs[l.from], input(l.to_program, l.to));
    }
    for (std::size_t p = 0; p < programs.size(); ++p)
      step.bodies.push_back(run(*programs[p].program, vars[p]));
    for (const NestedLink& l : links) {
      if (l.from_program == NestedLink::kEquation) continue;
      link(output(l.from_program, l.from),
           l.to_program == NestedLink::kEquation ? equation.outputs[l.to] : input(l.to_program, l.to));
    }
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::size_t i = 0; i < programs[p].program->outputs.size(); ++i) {
        if (decides(links, static_cast<int>(p), i)) flat_.deciding.push_back(output(static_cast<int>(p), i));
      }
    }
    step.nested = std::make_unique<Equation>(std::move(equation));
    return step;
  }

  FlatProgram& flat_;
  Program& out_;
};

}  // namespace

FlatProgram flatten(const Program& program) {
  FlatProgram flat;
  flat.program.name = program.name;
  flat.program.variables = program.variables;
  flat.program.inputs = program.inputs;
  flat.program.outputs = program.outputs;
  std::vector<Var> same(program.variables.size());
  for (std::size_t v = 0; v < same.size(); ++v) same[v] = static_cast<Var>(v);
  flat.body = Flattening(flat).run(program, same);
  return flat;
}

}  // namespace lockstep::sharding
