// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;

/// The rules that do not depend on which derivative is the user's. P: CustomJvpParams or CustomVjpParams.
template <class P>
ir::Primitive plain_call(std::string name) {
  auto program = [](const ir::OpParams& params) -> const ir::Program& { return *params.as<P>().program; };
  return nested_primitive(
      std::move(name),
      [program](std::span<const Aval> operands, const ir::OpParams& params) -> std::vector<Aval> {
        check_operands("the function", operands, program(params).input_avals());
        return program(params).output_avals();
      },
      ir::not_linear,
      [program](ir::Lowering& out, const ir::Equation& e) -> std::vector<std::string> {
        ir::Lowering::Names operands;
        for (std::size_t i = 0; i < e.inputs.size(); ++i) operands.push_back(out.operand(e, i));
        return out.inlined(program(e.params), operands);
      },
      ir::NestedRules{
          .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
            return {{params.as<P>().program}};
          },
          .links = [program](const ir::OpParams& params) { return links_to_all(program(params)); },
          .with_programs =
              [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                P p = params.as<P>();
                p.program = programs.front();
                return ir::OpParams::of(std::move(p));
              },
          .jvp = {},
          .batching = {},
          .prune =
              [program](const ir::OpParams& params, const Flags&) {
                return unpruned(params, program(params).inputs.size(), program(params).outputs.size());
              },
      });
}

/// Throws TraceError if a constant is differentiated.
void check_constants(const ir::NestedJvpCall& call, std::int64_t num_consts, std::string_view name) {
  for (std::int64_t i = 0; i < num_consts; ++i) {
    if (!call.tangents[static_cast<std::size_t>(i)]) continue;
    fail<TraceError>(
        "[{}] its functions use {} from outside, with respect to which it is differentiated (at {}); give "
        "the array to the function as an argument, for which its rule gives a derivative",
        name, to_string(call.inputs[static_cast<std::size_t>(i)].aval()),
        CallSiteScope::current().to_string());
  }
}

/// The tangents of all inexact operands from `first` on.
Values all_tangents(const ir::NestedJvpCall& call, std::int64_t first) {
  Values tangents;
  for (auto i = static_cast<std::size_t>(first); i < call.inputs.size(); ++i) {
    const Aval aval = call.inputs[i].aval();
    if (is_inexact(aval.dtype)) tangents.push_back(made_explicit(call.builder, call.tangents[i], aval));
  }
  return tangents;
}

ir::JvpValues by_rule(const ir::NestedJvpCall& call, const ir::Program& program, const ir::Program& rule,
                      std::int64_t num_consts) {
  Values operands(call.inputs.begin(), call.inputs.end());
  for (const ir::Value& tangent : all_tangents(call, num_consts)) operands.push_back(tangent);
  const Values results = inline_program(call.builder, rule, operands);
  const std::size_t n = program.outputs.size();
  ir::JvpValues out{{results.begin(), results.begin() + static_cast<std::ptrdiff_t>(n)}, ir::Tangents(n)};
  std::size_t next = n;
  for (std::size_t k = 0; k < n; ++k) {
    if (is_inexact(output_aval(program, k).dtype)) out.tangents[k] = results[next++];
  }
  return out;
}

ir::JvpValues jvp_by_rule(const ir::NestedJvpCall& call) {
  const auto& p = call.params.as<CustomJvpParams>();
  if (call.linearize && p.no_reverse) fail<TraceError>("{}", *p.no_reverse);
  check_constants(call, p.num_consts, "custom_jvp");
  return by_rule(call, *p.program, *p.rule, p.num_consts);
}

/// The flags of the operands, then of the tangents of the inexact ones from `first` on.
Flags with_tangents(const ir::Program& program, const Flags& flags, std::int64_t first) {
  Flags all = flags;
  for (auto i = static_cast<std::size_t>(first); i < flags.size(); ++i) {
    if (is_inexact(input_aval(program, i).dtype)) all.push_back(flags[i]);
  }
  return all;
}

ir::VmapValues batch_jvp(const ir::BatchCall& call) {
  CallSiteReset reset;
  const auto& p = call.params.as<CustomJvpParams>();
  const Flags flags(call.batched.begin(), call.batched.end());
  return {emit_nested(call.builder, custom_jvp_p(),
                      ir::OpParams::of(CustomJvpParams{
                          shared(vmap(*p.program, flags, call.axis)),
                          shared(vmap(*p.rule, with_tangents(*p.program, flags, p.num_consts), call.axis)),
                          p.num_consts, p.no_reverse}),
                      call.inputs),
          Flags(p.program->outputs.size(), true)};
}

ir::JvpValues jvp_by_forward(const ir::NestedJvpCall& call) {
  const auto& p = call.params.as<CustomVjpParams>();
  if (!call.linearize && p.jvp) {
    check_constants(call, p.num_consts, "custom_vjp");
    return by_rule(call, *p.program, **p.jvp, p.num_consts);
  }
  if (!call.linearize) {
    fail<TraceError>(
        "[custom_vjp] the function has only a reverse derivative, but a forward one is needed, as by jvp, "
        "jacfwd and hessian (at {}); give its rule with custom_jvp, which defines both",
        CallSiteScope::current().to_string());
  }
  check_constants(call, p.num_consts, "custom_vjp");
  const Values results = inline_program(call.builder, *p.forward, call.inputs);
  const std::size_t n = p.program->outputs.size();
  const auto num_consts = static_cast<std::ptrdiff_t>(p.num_consts);
  Values operands(call.inputs.begin(), call.inputs.begin() + num_consts);
  operands.insert(operands.end(), results.begin() + static_cast<std::ptrdiff_t>(n), results.end());
  const auto num_known = static_cast<std::int64_t>(operands.size());
  for (const ir::Value& tangent : all_tangents(call, p.num_consts)) operands.push_back(tangent);
  const Values tangents = call.builder.emit(
      custom_linear_p(), ir::OpParams::of(CustomLinearParams{p.backward, num_known}), operands);
  ir::JvpValues out{{results.begin(), results.begin() + static_cast<std::ptrdiff_t>(n)}, ir::Tangents(n)};
  std::size_t next = 0;
  for (std::size_t k = 0; k < n; ++k) {
    if (is_inexact(output_aval(*p.program, k).dtype)) out.tangents[k] = tangents[next++];
  }
  return out;
}

/// The backward program for many examples: cotangents of operands that are the same for all examples are
/// summed.
ProgramPtr batched_backward(const CustomVjpParams& p, const Flags& flags, const ir::MappedAxis& axis) {
  Flags all(p.backward->inputs.size(), true);
  for (std::int64_t i = 0; i < p.num_consts; ++i)
    all[static_cast<std::size_t>(i)] = flags[static_cast<std::size_t>(i)];
  const ir::Program mapped = vmap(*p.backward, all, axis);
  Inner inner(p.backward->name);
  Values inputs;
  for (const Aval& aval : mapped.input_avals()) inputs.push_back(inner.input(aval));
  Values outputs = inline_program(inner.builder(), mapped, inputs);
  std::size_t next = 0;
  for (auto i = static_cast<std::size_t>(p.num_consts); i < flags.size(); ++i) {
    if (!is_inexact(input_aval(*p.program, i).dtype)) continue;
    if (!flags[i]) outputs[next] = ir::lax::reduce_sum(outputs[next], {0});
    ++next;
  }
  return inner.finish(outputs);
}

ir::VmapValues batch_vjp(const ir::BatchCall& call) {
  CallSiteReset reset;
  const auto& p = call.params.as<CustomVjpParams>();
  const Flags flags(call.batched.begin(), call.batched.end());
  CustomVjpParams mapped{shared(vmap(*p.program, flags, call.axis)),
                         shared(vmap(*p.forward, flags, call.axis)), batched_backward(p, flags, call.axis),
                         p.num_consts};
  if (p.jvp) mapped.jvp = shared(vmap(**p.jvp, with_tangents(*p.program, flags, p.num_consts), call.axis));
  return {emit_nested(call.builder, custom_vjp_p(), ir::OpParams::of(std::move(mapped)), call.inputs),
          Flags(p.program->outputs.size(), true)};
}

[[noreturn]] void only_transposed(std::string_view what) {
  fail_internally("[custom_vjp] its linear part was asked for {}", what);
}

}  // namespace

const ir::Primitive& custom_jvp_p() {
  static const ir::Primitive p = [] {
    ir::Primitive p = plain_call<CustomJvpParams>("custom_jvp");
    p.nested->jvp = jvp_by_rule;
    p.nested->batching = batch_jvp;
    p.nested->own_derivative = [](const ir::OpParams& params) -> std::vector<ProgramPtr> {
      return {params.as<CustomJvpParams>().rule};
    };
    return p;
  }();
  return p;
}

const ir::Primitive& custom_vjp_p() {
  static const ir::Primitive p = [] {
    ir::Primitive p = plain_call<CustomVjpParams>("custom_vjp");
    p.nested->jvp = jvp_by_forward;
    p.nested->batching = batch_vjp;
    p.nested->own_derivative = [](const ir::OpParams& params) -> std::vector<ProgramPtr> {
      const auto& p = params.as<CustomVjpParams>();
      std::vector<ProgramPtr> all = {p.forward, p.backward};
      if (p.jvp) all.push_back(*p.jvp);
      return all;
    };
    return p;
  }();
  return p;
}

const ir::Primitive& custom_linear_p() {
  static const ir::Primitive p = {
      .name = "custom_linear",
      .shape = [](std::span<const Aval>, const ir::OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<CustomLinearParams>();
        std::vector<Aval> all = p.backward->input_avals();
        return {all.begin() + static_cast<std::ptrdiff_t>(p.num_known), all.end()};
      },
      .sharding = whole,
      .jvp = [](const ir::JvpCall&) -> ir::Tangents { only_transposed("its derivative"); },
      .transpose = [](const ir::TransposeCall& c) -> ir::Tangents {
        const auto& p = c.params.as<CustomLinearParams>();
        const auto num_known = static_cast<std::size_t>(p.num_known);
        Values operands;
        for (std::size_t i = 0; i < num_known; ++i) operands.push_back(*c.operands[i].value);
        for (std::size_t k = 0; k < c.results.size(); ++k) {
          operands.push_back(
              vary_over(made_explicit(c.builder, c.cotangents[k], c.results[k]), c.results[k].varying));
        }
        const Values cotangents = inline_program(c.builder, *p.backward, operands);
        ir::Tangents out(c.operands.size());
        for (std::size_t i = num_known; i < out.size(); ++i) out[i] = cotangents[i - num_known];
        return out;
      },
      .batching = [](const ir::BatchCall&) -> std::vector<ir::Value> { only_transposed("its batching"); },
      .flops = ir::flops_of_results,
      .zero_padding = ir::ZeroPadding::kCounts,
      .exchange = ir::no_exchange,
      .lower = [](ir::Lowering&, const ir::Equation&) -> std::vector<std::string> {
        only_transposed("its code");
      },
      .sets_varying = true,
  };
  return p;
}

}  // namespace lockstep::transforms
