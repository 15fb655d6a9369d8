// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/transforms/causal_attention_programs.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;

/// XLA's code is as fast for shorter sequences.
constexpr std::int64_t kLeastByOneDnn = 256;

const ir::Program& program_of(const ir::OpParams& params) {
  return *params.as<CausalAttentionParams>().program;
}

/// The program of operands with these avals.
ir::Program traced(const CausalAttentionParams& p, const std::vector<Aval>& avals) {
  const CausalAttention attention{p.scale.real, p.block};
  ir::Builder builder(p.backward ? "causal_attention_backward" : "causal_attention");
  Values v;
  for (const Aval& aval : avals) v.push_back(builder.input(aval));
  return builder.finish(p.backward ? attend_backward(attention, v[0], v[1], v[2], v[3], v[4], v[5])
                                   : attend(attention, v[0], v[1], v[2]));
}

/// Whether the program is that of whole sequences, which a device has for some examples and heads.
bool has_whole_sequences(const CausalAttentionParams& p) {
  const std::vector<Aval> avals = p.program->input_avals();
  const Shape &q = avals[0].shape, &k = avals[1].shape;
  if (avals[0].num_elements() == 0 || q[1] != p.query_shape[1] || q[3] != p.query_shape[3] ||
      k[1] != p.key_shape[1] || k[3] != p.key_shape[3] || q[0] != k[0] ||
      q[2] * p.key_shape[2] != k[2] * p.query_shape[2])
    return false;
  bool communicates = false;
  for_each_equation(*p.program, [&](const ir::Equation& e) {
    communicates = communicates || !e.primitive->exchange(e.params).kind.empty();
  });
  if (communicates) return false;
  const std::vector<Shape> results =
      p.backward ? std::vector{q, k, k} : std::vector{q, Shape{q[0], k[2], q[1], q[2] / k[2]}};
  return std::ranges::equal(p.program->output_avals(), results, {}, &Aval::shape);
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<CausalAttentionParams>();
  const DType dtype = out.operand_aval(e, 0).dtype;
  if (out.for_cpu() && p.query_shape[1] >= kLeastByOneDnn && out.onednn_takes(dtype, dtype) &&
      onednn::is_available() && has_whole_sequences(p)) {
    std::vector<std::pair<std::string, Aval>> operands;
    std::vector<Aval> results;
    for (std::size_t i = 0; i < e.inputs.size(); ++i)
      operands.emplace_back(out.operand(e, i), out.operand_aval(e, i));
    for (std::size_t i = 0; i < e.outputs.size(); ++i) results.push_back(out.result_aval(e, i));
    return out.onednn_call(
        fmt::format("operation = \"attention{}\", scale = {} : i64", p.backward ? "_backward" : "",
                    std::bit_cast<std::int64_t>(p.scale.real)),
        operands, results);
  }
  ir::Lowering::Names operands;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) operands.push_back(out.operand(e, i));
  return out.inlined(*p.program, operands);
}

}  // namespace

const ir::Primitive& causal_attention_p() {
  static const ir::Primitive p = nested_primitive(
      "causal_attention",
      [](std::span<const Aval> operands, const ir::OpParams& params) -> std::vector<Aval> {
        check_operands("the program", operands, program_of(params).input_avals());
        return program_of(params).output_avals();
      },
      ir::not_linear, write,
      ir::NestedRules{
          .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
            return {{params.as<CausalAttentionParams>().program}};
          },
          .links = [](const ir::OpParams& params) { return links_to_all(program_of(params)); },
          .with_programs =
              [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                auto p = params.as<CausalAttentionParams>();
                p.program = programs.front();
                return ir::OpParams::of(std::move(p));
              },
          .jvp =
              [](const ir::NestedJvpCall& call) {
                return inline_jvp(call.builder, program_of(call.params), call.inputs, call.tangents,
                                  call.linearize);
              },
          .batching =
              [](const ir::BatchCall& call) {
                return inline_vmap(call.builder, program_of(call.params), call.inputs,
                                   Flags(call.batched.begin(), call.batched.end()), call.axis);
              },
          .prune =
              [](const ir::OpParams& params, const Flags&) {
                return unpruned(params, program_of(params).inputs.size(), program_of(params).outputs.size());
              },
      });
  return p;
}

CausalAttentionParams causal_attention(const std::vector<Aval>& operands, double scale, std::int64_t block,
                                       bool backward) {
  CausalAttentionParams p{{}, operands[0].shape, operands[1].shape, ir::Scalar::of(scale), block, backward};
  p.program = shared(traced(p, operands));
  return p;
}

CustomVjpParams differentiable_causal_attention(const std::vector<Aval>& operands, double scale,
                                                std::int64_t block) {
  const CausalAttentionParams forward = causal_attention(operands, scale, block, false);
  std::vector<Aval> of_backward = operands;
  for (const Aval& aval : forward.program->output_avals()) of_backward.push_back(aval);
  of_backward.push_back(of_backward[3]);
  const CausalAttentionParams backward = causal_attention(of_backward, scale, block, true);
  const auto program = [](const std::vector<Aval>& avals,
                          const std::function<Values(Inner&, const Values&)>& f) {
    Inner inner("causal_attention");
    Values inputs;
    for (const Aval& aval : avals) inputs.push_back(inner.input(aval));
    return inner.finish(f(inner, inputs));
  };
  const auto attended = [&](Inner& inner, const Values& inputs) {
    return emit_nested(inner.builder(), causal_attention_p(), ir::OpParams::of(forward), inputs);
  };
  std::vector<Aval> with_tangents = operands;
  with_tangents.insert(with_tangents.end(), operands.begin(), operands.end());
  return {.program =
              program(operands, [&](Inner& inner, const Values& v) { return Values{attended(inner, v)[0]}; }),
          .forward = program(operands,
                             [&](Inner& inner, const Values& v) {
                               const Values results = attended(inner, v);
                               return Values{results[0], v[0], v[1], v[2], results[0], results[1]};
                             }),
          .backward = program(of_backward,
                              [&](Inner& inner, const Values& v) {
                                return emit_nested(inner.builder(), causal_attention_p(),
                                                   ir::OpParams::of(backward), v);
                              }),
          .num_consts = 0,
          .jvp = program(with_tangents, [&](Inner& inner, const Values& v) {
            const ir::Tangents tangents(v.begin() + 3, v.end());
            const ir::JvpValues values =
                inline_jvp(inner.builder(), *forward.program, std::span(v).first(3), tangents);
            return Values{values.outputs[0], *values.tangents[0]};
          })};
}

}  // namespace lockstep::transforms
