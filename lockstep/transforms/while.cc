// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;
constexpr int kEquation = ir::NestedLink::kEquation;

/// The places of the operands: the condition's constants, the body's, the carry.
struct Layout {
  std::size_t body_consts, carry, operands, num_carry, num_body_consts;

  explicit Layout(const WhileParams& p)
      : body_consts(static_cast<std::size_t>(p.condition_consts)),
        carry(body_consts + static_cast<std::size_t>(p.body_consts)),
        operands(body_consts + p.body->inputs.size()),
        num_carry(p.body->outputs.size()),
        num_body_consts(static_cast<std::size_t>(p.body_consts)) {}
};

ir::OpParams params_of(ProgramPtr condition, ProgramPtr body, std::size_t condition_consts,
                       std::size_t body_consts) {
  return ir::OpParams::of(WhileParams{std::move(condition), std::move(body),
                                      static_cast<std::int64_t>(condition_consts),
                                      static_cast<std::int64_t>(body_consts)});
}

std::vector<Aval> shape(std::span<const Aval> operands, const ir::OpParams& params) {
  const auto& p = params.as<WhileParams>();
  const Layout at(p);
  const std::vector<Aval> condition = p.condition->output_avals();
  check_outputs("the condition", condition, {Aval{DType::kBool, {}}});
  std::vector<Aval> expected = p.condition->input_avals();
  const std::vector<Aval> body = p.body->input_avals();
  expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at.body_consts), body.begin(),
                  body.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts));
  check_operands("the loop", operands, expected);
  const std::vector<Aval> carry(body.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts), body.end());
  check_outputs("the loop's body", p.body->output_avals(), carry);
  return p.body->output_avals();
}

std::vector<ir::NestedLink> links(const ir::OpParams& params) {
  const Layout at(params.as<WhileParams>());
  std::vector<ir::NestedLink> links;
  for (std::size_t i = 0; i < at.operands; ++i) {
    if (i < at.body_consts) links.push_back({kEquation, i, 0, i});
    if (i >= at.carry) links.push_back({kEquation, i, 0, at.body_consts + i - at.carry});
    if (i >= at.body_consts) links.push_back({kEquation, i, 1, i - at.body_consts});
  }
  for (std::size_t k = 0; k < at.num_carry; ++k) {
    links.push_back({1, k, 1, at.num_body_consts + k});
    links.push_back({1, k, 0, at.body_consts + k});
    links.push_back({1, k, kEquation, k});
  }
  return links;
}

/// The loop with tangents as a further part of the carry; they decide nothing.
ir::JvpValues derive(const ir::NestedJvpCall& call) {
  const auto& p = call.params.as<WhileParams>();
  const Layout at(p);
  const Flags wrt =
      nested_flow(while_p(), call.params, given(call.tangents), at.num_carry, Flow::kTangents).inputs[1];
  auto tangent = [&](std::size_t i) {
    return made_explicit(call.builder, call.tangents[i], Aval(call.inputs[i].aval()));
  };
  Values operands(call.inputs.begin(), call.inputs.begin() + static_cast<std::ptrdiff_t>(at.carry));
  for (std::size_t i = at.body_consts; i < at.carry; ++i) {
    if (wrt[i - at.body_consts]) operands.push_back(tangent(i));
  }
  const std::size_t body_consts = operands.size() - at.body_consts;
  operands.insert(operands.end(), call.inputs.begin() + static_cast<std::ptrdiff_t>(at.carry),
                  call.inputs.end());
  std::vector<Aval> tangent_avals;
  for (std::size_t k = 0; k < at.num_carry; ++k) {
    if (!wrt[at.num_body_consts + k]) continue;
    operands.push_back(tangent(at.carry + k));
    tangent_avals.push_back(input_aval(*p.body, at.num_body_consts + k));
  }
  Inner condition(p.condition->name);
  Values inputs;
  for (const Aval& aval : p.condition->input_avals()) inputs.push_back(condition.input(aval));
  for (const Aval& aval : tangent_avals) condition.input(aval);
  const ProgramPtr new_condition =
      condition.finish(inline_program(condition.builder(), *p.condition, inputs));

  Inner body(p.body->name);
  inputs.clear();
  ir::Tangents tangents(p.body->inputs.size());
  auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) inputs.push_back(body.input(input_aval(*p.body, i)));
    for (std::size_t i = from; i < to; ++i) {
      if (wrt[i]) tangents[i] = body.input(input_aval(*p.body, i));
    }
  };
  add(0, at.num_body_consts);
  add(at.num_body_consts, p.body->inputs.size());
  const ir::JvpValues values = inline_jvp(body.builder(), *p.body, inputs, tangents);
  Values outputs = values.outputs;
  for (std::size_t k = 0; k < at.num_carry; ++k) {
    if (wrt[at.num_body_consts + k])
      outputs.push_back(made_explicit(body.builder(), values.tangents[k], output_aval(*p.body, k)));
  }
  const ProgramPtr new_body = body.finish(outputs);
  const Values results = emit_nested(
      call.builder, while_p(), params_of(new_condition, new_body, at.body_consts, body_consts), operands);
  // There is no reverse derivative; if it is not needed, the loop of the tangents is removed as dead code.
  ir::JvpValues out;
  out.outputs = call.linearize
                    ? emit_nested(call.builder, while_p(), call.params, call.inputs)
                    : Values(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(at.num_carry));
  out.tangents.resize(at.num_carry);
  std::size_t next = at.num_carry;
  for (std::size_t k = 0; k < at.num_carry; ++k) {
    if (wrt[at.num_body_consts + k]) out.tangents[k] = results[next++];
  }
  return out;
}

ir::Tangents transpose(const ir::TransposeCall&) {
  fail<TraceError>(
      "[while_loop] has no reverse derivative, because its number of steps is unknown (at {}); use scan, or "
      "fori_loop with bounds that are C++ numbers, or take the forward derivative with jvp or jacfwd",
      CallSiteScope::current().to_string());
}

/// If the condition differs between the examples, the loop runs until it is false for all, and examples for
/// which it is false keep their carry. A carry is batched if its initial value is, if a step makes it so, or
/// if the condition differs; found by tracing until no other one becomes batched.
ir::VmapValues batching(const ir::BatchCall& call) {
  const auto& p = call.params.as<WhileParams>();
  const Layout at(p);
  const auto consts = static_cast<std::ptrdiff_t>(at.body_consts);
  Flags condition_flags(call.batched.begin(), call.batched.begin() + consts);
  Flags body_flags(call.batched.begin() + consts, call.batched.end());
  condition_flags.insert(condition_flags.end(),
                         body_flags.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts),
                         body_flags.end());
  for (;;) {
    for (std::size_t k = 0; k < at.num_carry; ++k)
      condition_flags[at.body_consts + k] = body_flags[at.num_body_consts + k];
    Inner condition(p.condition->name);
    ir::VmapValues go_on = inline_vmap(condition.builder(), *p.condition,
                                       inputs_of(condition, *p.condition, condition_flags, call.axis),
                                       condition_flags, call.axis);
    const bool differs = go_on.batched[0];
    if (differs) {
      go_on.outputs[0] = ir::lax::reduce_or(go_on.outputs[0], {0});
      const auto carry = body_flags.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts);
      const bool all = std::find(carry, body_flags.end(), false) == body_flags.end();
      std::fill(carry, body_flags.end(), true);
      if (!all) continue;
    }
    const ProgramPtr new_condition = condition.finish(go_on.outputs);

    Inner body(p.body->name);
    Values
        conditions;  // what the condition is computed of: its constants, which a body that selects takes too
    if (differs) {
      for (std::size_t i = 0; i < at.body_consts; ++i) {
        const Aval& aval = input_aval(*p.condition, i);
        conditions.push_back(body.input(condition_flags[i] ? stacked(aval, call.axis) : aval));
      }
    }
    const std::size_t num_body_consts = conditions.size() + at.num_body_consts;
    const Values inputs = inputs_of(body, *p.body, body_flags, call.axis);
    ir::VmapValues next = inline_vmap(body.builder(), *p.body, inputs, body_flags, call.axis);
    if (widen(body_flags, at.num_body_consts, next, at.num_carry, call.axis)) continue;
    if (differs) {
      conditions.insert(conditions.end(), inputs.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts),
                        inputs.end());
      const ir::Value runs =
          inline_vmap(body.builder(), *p.condition, conditions, condition_flags, call.axis).outputs[0];
      for (std::size_t k = 0; k < at.num_carry; ++k) {
        const ir::Value& old = inputs[at.num_body_consts + k];
        next.outputs[k] =
            ir::lax::select(ir::lax::broadcast_in_dim(runs, old.aval().shape, {0}), next.outputs[k], old);
      }
    }
    const ProgramPtr new_body = body.finish(next.outputs);

    Values operands(call.inputs.begin(), call.inputs.begin() + consts);
    if (differs) operands.insert(operands.end(), call.inputs.begin(), call.inputs.begin() + consts);
    for (std::size_t i = at.body_consts; i < at.operands; ++i) {
      const bool broadcast = body_flags[i - at.body_consts] && !call.batched[i];
      operands.push_back(broadcast ? ir::rules::broadcast_leading(call.inputs[i], call.size)
                                   : call.inputs[i]);
    }
    return {emit_nested(call.builder, while_p(),
                        params_of(new_condition, new_body, at.body_consts, num_body_consts), operands),
            Flags(body_flags.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts), body_flags.end())};
  }
}

ir::PrunedEquation prune(const ir::OpParams& params, const Flags& used) {
  const auto& p = params.as<WhileParams>();
  const Layout at(p);
  const Flags condition = live_inputs(*p.condition, {true});
  Flags carry = used, body;
  for (std::size_t k = 0; k < at.num_carry; ++k) carry[k] = carry[k] || condition[at.body_consts + k];
  for (bool changed = true; changed;) {
    changed = false;
    body = live_inputs(*p.body, carry);
    for (std::size_t k = 0; k < at.num_carry; ++k) {
      if (carry[k] || !body[at.num_body_consts + k]) continue;
      carry[k] = changed = true;
    }
  }
  Flags condition_inputs(condition.begin(), condition.begin() + static_cast<std::ptrdiff_t>(at.body_consts));
  Flags body_inputs(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(at.num_body_consts));
  Flags operands = condition_inputs;
  operands.insert(operands.end(), body_inputs.begin(), body_inputs.end());
  operands.insert(operands.end(), carry.begin(), carry.end());
  const auto condition_consts = static_cast<std::size_t>(std::ranges::count(condition_inputs, true));
  const auto body_consts = static_cast<std::size_t>(std::ranges::count(body_inputs, true));
  condition_inputs.insert(condition_inputs.end(), carry.begin(), carry.end());
  body_inputs.insert(body_inputs.end(), carry.begin(), carry.end());
  return {params_of(restricted(*p.condition, condition_inputs, {true}),
                    restricted(*p.body, body_inputs, carry), condition_consts, body_consts),
          operands, carry};
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<WhileParams>();
  const Layout at(p);
  ir::Lowering::Names initial, condition_consts, body_consts;
  std::vector<std::string> types;
  for (std::size_t i = 0; i < at.operands; ++i) {
    auto& names = i < at.body_consts ? condition_consts : i < at.carry ? body_consts : initial;
    names.push_back(out.operand(e, i));
    if (i >= at.carry) types.push_back(out.operand_type(e, i));
  }
  auto with = [](ir::Lowering::Names names, const ir::Lowering::Names& values) {
    names.insert(names.end(), values.begin(), values.end());
    return names;
  };
  return out.loop(
      initial, types,
      [&](const ir::Lowering::Names& values) {
        return out.inlined(*p.condition, with(condition_consts, values)).front();
      },
      [&](const ir::Lowering::Names& values) { return out.inlined(*p.body, with(body_consts, values)); });
}

}  // namespace

const ir::Primitive& while_p() {
  static const ir::Primitive p =
      nested_primitive("while", shape, transpose, write,
                       ir::NestedRules{
                           .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
                             const auto& p = params.as<WhileParams>();
                             return {{p.condition, std::nullopt}, {p.body, std::nullopt}};
                           },
                           .links = links,
                           .with_programs =
                               [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                                 const auto& p = params.as<WhileParams>();
                                 return ir::OpParams::of(WhileParams{programs[0], programs[1],
                                                                     p.condition_consts, p.body_consts});
                               },
                           .jvp = derive,
                           .batching = batching,
                           .prune = prune,
                       });
  return p;
}

}  // namespace lockstep::transforms
