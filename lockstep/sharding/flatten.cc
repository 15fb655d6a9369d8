// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/flatten.h"

#include <algorithm>
#include <utility>

#include "lockstep/program/primitive.h"

namespace lockstep::sharding {
namespace {

/// A way of a value: dimensions correspond from the last on; a leading one that only one side has is whole.
const ir::Primitive& link_p() {
  static const ir::Primitive p = [] {
    ir::Primitive p = {.name = "link", .jvp = ir::zero_tangents};
    p.flops = ir::no_flops;
    p.zero_padding = ir::ZeroPadding::kCounts;
    p.exchange = ir::no_exchange;
    p.sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs, const ir::OpParams&) {
      ir::ShardingRule rule = ir::ShardingRule::replicated(inputs, outputs);
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
  FlatBody run(const ir::Program& program, const std::vector<ir::Var>& vars) {
    auto flat = [&](const std::vector<ir::Var>& own) {
      std::vector<ir::Var> all;
      for (ir::Var var : own) all.push_back(vars[static_cast<std::size_t>(var)]);
      return all;
    };
    FlatBody body{program.name, flat(program.inputs), flat(program.outputs), {}};
    for (const ir::Equation& equation : program.equations) {
      ir::Equation copy = equation;
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
  FlatBody::Step nested(ir::Equation equation) {
    const ir::NestedRules& rules = *equation.primitive->nested;
    const std::vector<ir::NestedProgram> programs = rules.programs(equation.params);
    const std::vector<ir::NestedLink> links = rules.links(equation.params);
    std::vector<std::vector<ir::Var>> vars;
    for (const ir::NestedProgram& nested : programs) {
      std::vector<ir::Var>& own = vars.emplace_back();
      for (const Aval& aval : nested.program->variables) {
        own.push_back(static_cast<ir::Var>(out_.variables.size()));
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
    auto link = [&](ir::Var from, ir::Var to) {
      out_.equations.push_back({&link_p(), {}, {from}, {to}, equation.site});
      flat_.origins.push_back(nullptr);
    };
    FlatBody::Step step;
    for (const ir::NestedLink& l : links) {
      if (l.from_program == ir::NestedLink::kEquation)
        link(equation.inputs[l.from], input(l.to_program, l.to));
    }
    for (std::size_t p = 0; p < programs.size(); ++p)
      step.bodies.push_back(run(*programs[p].program, vars[p]));
    for (const ir::NestedLink& l : links) {
      if (l.from_program == ir::NestedLink::kEquation) continue;
      link(output(l.from_program, l.from),
           l.to_program == ir::NestedLink::kEquation ? equation.outputs[l.to] : input(l.to_program, l.to));
    }
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::size_t i = 0; i < programs[p].program->outputs.size(); ++i) {
        if (ir::decides(links, static_cast<int>(p), i))
          flat_.deciding.push_back(output(static_cast<int>(p), i));
      }
    }
    step.nested = std::make_unique<ir::Equation>(std::move(equation));
    return step;
  }

  FlatProgram& flat_;
  ir::Program& out_;
};

}  // namespace

FlatProgram flatten(const ir::Program& program) {
  FlatProgram flat;
  flat.program.name = program.name;
  flat.program.variables = program.variables;
  flat.program.inputs = program.inputs;
  flat.program.outputs = program.outputs;
  std::vector<ir::Var> same(program.variables.size());
  for (std::size_t v = 0; v < same.size(); ++v) same[v] = static_cast<ir::Var>(v);
  flat.body = Flattening(flat).run(program, same);
  return flat;
}

}  // namespace lockstep::sharding
