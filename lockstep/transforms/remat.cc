// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/program/lowering.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/linearize.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/remat_policy.h"
#include "lockstep/transforms/transpose.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;

const ir::Program& program_of(const ir::OpParams& params) { return *params.as<RematParams>().program; }

/// The parameters of an equation, with another program.
ir::OpParams params_of(ProgramPtr program, const ir::OpParams& like,
                       std::optional<bool> barrier = std::nullopt) {
  RematParams params = like.as<RematParams>();
  params.program = std::move(program);
  params.barrier = barrier.value_or(params.barrier);
  return ir::OpParams::of(std::move(params));
}

std::vector<Aval> shape(std::span<const Aval> operands, const ir::OpParams& params) {
  check_operands("the program", operands, program_of(params).input_avals());
  return program_of(params).output_avals();
}

ir::JvpValues derive(const ir::NestedJvpCall& call) {
  const ir::Program& program = program_of(call.params);
  const std::size_t n = program.outputs.size();
  const Flags wrt = given(call.tangents);
  Values operands(call.inputs.begin(), call.inputs.end()), tangents_of_inputs;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (wrt[i])
      tangents_of_inputs.push_back(
          made_explicit(call.builder, call.tangents[i], Aval(call.inputs[i].aval())));
  }
  ir::JvpValues out{{}, ir::Tangents(n)};
  if (call.linearize) {
    // The tangents' program computes the values that it needs itself, except those that the policy saves.
    SplitDerivative split = [&] {
      CallSiteReset reset;
      return split_derivative(program, wrt, Flags(wrt.size(), true), Flags(wrt.size(), true),
                              saved_by(call.params.as<RematParams>()));
    }();
    // The values as the derivative sees them: the results of user-defined rules, where there are any.
    const Values known = emit_nested(call.builder, remat_p(),
                                     params_of(shared(std::move(split.known)), call.params), call.inputs);
    out.outputs.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(n));
    operands.insert(operands.end(), known.begin() + static_cast<std::ptrdiff_t>(n), known.end());
    operands.insert(operands.end(), tangents_of_inputs.begin(), tangents_of_inputs.end());
    const Values tangents = emit_nested(
        call.builder, remat_p(), params_of(shared(std::move(split.linear)), call.params, true), operands);
    std::size_t next = 0;
    for (std::size_t k = 0; k < n; ++k) {
      if (split.has_tangent[k]) out.tangents[k] = tangents[next++];
    }
    return out;
  }
  operands.insert(operands.end(), tangents_of_inputs.begin(), tangents_of_inputs.end());
  Inner inner(program.name);
  Values inputs, outputs;
  ir::Tangents tangents(wrt.size());
  for (const Aval& aval : program.input_avals()) inputs.push_back(inner.input(aval));
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (wrt[i]) tangents[i] = inner.input(input_aval(program, i));
  }
  const ir::JvpValues values = inline_jvp(inner.builder(), program, inputs, tangents);
  outputs = values.outputs;
  for (const auto& tangent : values.tangents) {
    if (tangent) outputs.push_back(*tangent);
  }
  const Values results =
      emit_nested(call.builder, remat_p(), params_of(inner.finish(outputs), call.params), operands);
  out.outputs.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(n));
  std::size_t next = n;
  for (std::size_t k = 0; k < n; ++k) {
    if (values.tangents[k]) out.tangents[k] = results[next++];
  }
  return out;
}

ir::Tangents transpose(const ir::TransposeCall& call) {
  const ir::Program& program = program_of(call.params);
  Inner inner(program.name);
  Flags linear;
  Values operands, known, outputs;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    linear.push_back(call.operands[i].linear());
    if (linear[i]) continue;
    operands.push_back(*call.operands[i].value);
    known.push_back(inner.input(input_aval(program, i)));
  }
  ir::Tangents cotangents(call.cotangents.size());
  for (std::size_t k = 0; k < cotangents.size(); ++k) {
    if (!call.cotangents[k]) continue;
    operands.push_back(*call.cotangents[k]);
    cotangents[k] = inner.input(output_aval(program, k));
  }
  const ir::Tangents pulled =
      Transposition(inner.builder(), program, linear, known).run(cotangents, Flags(linear.size(), true));
  for (const auto& cotangent : pulled) {
    if (cotangent) outputs.push_back(*cotangent);
  }
  const Values results =
      emit_nested(call.builder, remat_p(), params_of(inner.finish(outputs), call.params), operands);
  ir::Tangents out(call.operands.size());
  std::size_t next = 0, next_result = 0;
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (linear[i] && pulled[next++]) out[i] = results[next_result++];
  }
  return out;
}

ir::VmapValues batching(const ir::BatchCall& call) {
  const ir::Program& program = program_of(call.params);
  const Flags flags(call.batched.begin(), call.batched.end());
  Inner inner(program.name);
  ir::VmapValues values =
      inline_vmap(inner.builder(), program, inputs_of(inner, program, flags, call.axis), flags, call.axis);
  return {
      emit_nested(call.builder, remat_p(), params_of(inner.finish(values.outputs), call.params), call.inputs),
      values.batched};
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<RematParams>();
  ir::Lowering::Names operands;
  std::vector<std::string> types;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    operands.push_back(out.operand(e, i));
    types.push_back(out.operand_type(e, i));
  }
  return out.inlined(*p.program, p.barrier ? out.barrier(operands, types) : operands);
}

}  // namespace

const ir::Primitive& remat_p() {
  static const ir::Primitive p = nested_primitive(
      "remat", shape, transpose, write,
      ir::NestedRules{
          .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
            return {{params.as<RematParams>().program}};
          },
          .links = [](const ir::OpParams& params) { return links_to_all(program_of(params)); },
          .with_programs =
              [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                return params_of(programs.front(), params);
              },
          .jvp = derive,
          .batching = batching,
          .prune = [](const ir::OpParams& params, const Flags& used) -> ir::PrunedEquation {
            const ir::Program& program = program_of(params);
            const Flags inputs = live_inputs(program, used);
            return {params_of(restricted(program, inputs, used), params), inputs, used};
          },
      });
  return p;
}

}  // namespace lockstep::transforms
