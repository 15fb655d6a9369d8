// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/attention_programs.h"
#include "lockstep/transforms/cudnn_attention.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;

/// XLA's code is as fast for shorter sequences.
constexpr std::int64_t kLeastByOneDnn = 128;

const ir::Program& program_of(const ir::OpParams& params) { return *params.as<AttentionParams>().program; }

/// The program of operands with these avals.
ir::Program traced(const Attention& attention, bool backward, const std::vector<Aval>& avals) {
  ir::Builder builder(backward ? "attention_backward" : "attention");
  Values v;
  for (const Aval& aval : avals) v.push_back(builder.input(aval));
  return builder.finish(backward ? attend_backward(attention, v) : attend(attention, v));
}

/// Whether the program is that of whole sequences, which a device has for some examples and heads.
bool has_whole_sequences(const AttentionParams& p) {
  const std::vector<Aval> avals = p.program->input_avals();
  const Shape &q = avals[0].shape, &k = avals[1].shape;
  if (avals[0].num_elements() == 0 || q[1] != p.query_shape[1] || q[3] != p.query_shape[3] ||
      k[1] != p.key_shape[1] || q[2] * p.key_shape[2] != k[2] * p.query_shape[2])
    return false;
  bool communicates = false;
  for_each_equation(*p.program, [&](const ir::Equation& e) {
    communicates = communicates || !e.primitive->exchange(e.params).kind.empty();
  });
  if (communicates) return false;
  const Shape key = {q[0], k[1], k[2], q[3]}, logs = {q[0], k[2], q[1], q[2] / k[2]};
  std::vector<Shape> operands = {q, key, key}, results = {q, logs};
  const bool has_lengths = avals.size() == (p.backward ? 7 : 4);
  if (has_lengths) operands.push_back({q[0]});
  if (p.backward) {
    operands.insert(operands.end(), {q, logs, q});
    results = {q, key, key};
  }
  return std::ranges::equal(avals, operands, {}, &Aval::shape) &&
         std::ranges::equal(p.program->output_avals(), results, {}, &Aval::shape);
}

bool is_by_cudnn(const ir::Lowering& out, const AttentionParams& p, DType dtype) {
  const bool must_be = p.implementation == "cudnn";
  if (!must_be && (p.implementation || out.cudnn_features() == 0)) return false;
  std::string why_not;
  if (!out.for_cuda())
    why_not = "the program is not compiled for NVIDIA GPUs";
  else if (out.cudnn_features() == 0)
    why_not = "XLA's compiler calls it only where there is a GPU, of compute capability 8.0 or above";
  else if (!has_whole_sequences(p))
    why_not = "a device has no whole sequences, or no whole groups of heads";
  else
    why_not = why_not_cudnn(p, dtype, out.cudnn_features());
  if (must_be && !why_not.empty()) {
    fail(
        "[dot_product_attention] .implementation is kCudnn, but cuDNN cannot compute this attention: {} (at "
        "{}); leave "
        ".implementation unset to let XLA compute it",
        why_not, CallSiteScope::current().to_string());
  }
  return why_not.empty();
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<AttentionParams>();
  const DType dtype = out.operand_aval(e, 0).dtype;
  if (is_by_cudnn(out, p, dtype)) return cudnn_attention(out, e);
  if (out.for_cpu() && p.implementation != "xla" &&
      std::min(p.query_shape[1], p.key_shape[1]) >= kLeastByOneDnn && out.onednn_takes(dtype, dtype) &&
      onednn::is_available() && has_whole_sequences(p)) {
    std::vector<std::pair<std::string, Aval>> operands;
    std::vector<Aval> results;
    for (std::size_t i = 0; i < e.inputs.size(); ++i)
      operands.emplace_back(out.operand(e, i), out.operand_aval(e, i));
    for (std::size_t i = 0; i < e.outputs.size(); ++i) results.push_back(out.result_aval(e, i));
    return out.onednn_call(
        fmt::format("operation = \"attention{}\", scale = {} : i64, left = {} : i64, right = {} : i64",
                    p.backward ? "_backward" : "", std::bit_cast<std::int64_t>(p.scale.real),
                    p.left.value_or(-1), p.right.value_or(-1)),
        operands, results);
  }
  ir::Lowering::Names operands;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) operands.push_back(out.operand(e, i));
  return out.inlined(*p.program, operands);
}

/// The examples join the batch, if query, key and value have them.
ir::VmapValues batch(const ir::BatchCall& call) {
  const auto& p = call.params.as<AttentionParams>();
  if (!call.batched[0] || !call.batched[1] || !call.batched[2])
    return inline_vmap(call.builder, *p.program, call.inputs, Flags(call.batched.begin(), call.batched.end()),
                       call.axis);
  Values joined;
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const ir::Value all =
        call.batched[i] ? call.inputs[i] : ir::rules::broadcast_leading(call.inputs[i], call.size);
    Shape shape(all.aval().shape.begin() + 1, all.aval().shape.end());
    shape[0] *= call.size;
    joined.push_back(ir::lax::reshape(all, shape));
    avals.push_back(joined.back().aval());
  }
  ir::VmapValues out{
      emit_nested(call.builder, attention_p(),
                  ir::OpParams::of(attention_of(
                      avals, {p.scale.real, p.block, p.left, p.right, p.implementation}, p.backward)),
                  joined),
      {}};
  for (ir::Value& result : out.outputs) {
    Shape shape = result.aval().shape;
    shape[0] /= call.size;
    shape.insert(shape.begin(), call.size);
    result = ir::lax::reshape(result, shape);
  }
  out.batched.assign(out.outputs.size(), true);
  return out;
}

}  // namespace

const ir::Primitive& attention_p() {
  static const ir::Primitive p = nested_primitive(
      "attention",
      [](std::span<const Aval> operands, const ir::OpParams& params) -> std::vector<Aval> {
        check_operands("the program", operands, program_of(params).input_avals());
        return program_of(params).output_avals();
      },
      ir::not_linear, write,
      ir::NestedRules{
          .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
            return {{params.as<AttentionParams>().program}};
          },
          .links = [](const ir::OpParams& params) { return links_to_all(program_of(params)); },
          .with_programs =
              [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                auto p = params.as<AttentionParams>();
                p.program = programs.front();
                return ir::OpParams::of(std::move(p));
              },
          .jvp =
              [](const ir::NestedJvpCall& call) {
                return inline_jvp(call.builder, program_of(call.params), call.inputs, call.tangents,
                                  call.linearize);
              },
          .batching = batch,
          .prune =
              [](const ir::OpParams& params, const Flags&) {
                return unpruned(params, program_of(params).inputs.size(), program_of(params).outputs.size());
              },
      });
  return p;
}

AttentionParams attention_of(const std::vector<Aval>& operands, const Attention& attention, bool backward) {
  return {shared(traced(attention, backward, operands)),
          operands[0].shape,
          operands[1].shape,
          ir::Scalar::of(attention.scale),
          attention.block,
          attention.left,
          attention.right,
          backward,
          attention.implementation};
}

CustomVjpParams differentiable_attention(const std::vector<Aval>& operands, const Attention& attention) {
  const AttentionParams forward = attention_of(operands, attention, false);
  const std::vector<Aval> results = forward.program->output_avals();
  std::vector<Aval> of_backward = operands;
  of_backward.insert(of_backward.end(), {results[0], results[1], results[0]});
  const AttentionParams backward = attention_of(of_backward, attention, true);
  const auto program = [](const std::vector<Aval>& avals,
                          const std::function<Values(Inner&, const Values&)>& f) {
    Inner inner("attention");
    Values inputs;
    for (const Aval& aval : avals) inputs.push_back(inner.input(aval));
    return inner.finish(f(inner, inputs));
  };
  const auto attended = [&](Inner& inner, const Values& inputs) {
    return emit_nested(inner.builder(), attention_p(), ir::OpParams::of(forward), inputs);
  };
  std::vector<Aval> with_tangents = operands;
  with_tangents.insert(with_tangents.end(), operands.begin(), operands.begin() + 3);
  return {.program =
              program(operands, [&](Inner& inner, const Values& v) { return Values{attended(inner, v)[0]}; }),
          .forward = program(operands,
                             [&](Inner& inner, const Values& v) {
                               const Values results = attended(inner, v);
                               Values out = {results[0]};
                               out.insert(out.end(), v.begin(), v.end());
                               out.insert(out.end(), results.begin(), results.end());
                               return out;
                             }),
          .backward = program(of_backward,
                              [&](Inner& inner, const Values& v) {
                                return emit_nested(inner.builder(), attention_p(), ir::OpParams::of(backward),
                                                   v);
                              }),
          .num_consts = 0,
          .jvp = program(with_tangents, [&](Inner& inner, const Values& v) {
            const std::size_t n = operands.size();
            ir::Tangents tangents(v.begin() + static_cast<std::ptrdiff_t>(n), v.end());
            tangents.resize(n);
            const ir::JvpValues values =
                inline_jvp(inner.builder(), *forward.program, std::span(v).first(n), tangents);
            return Values{values.outputs[0], *values.tangents[0]};
          })};
}

}  // namespace lockstep::transforms
