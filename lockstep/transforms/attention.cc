// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <iterator>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/attention_programs.h"
#include "lockstep/transforms/cudnn_attention.h"
#include "lockstep/transforms/dce.h"
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

/// attend_backward's fourth result.
constexpr std::size_t kOfBias = 3;

AttentionParams without_cotangent_of_bias(AttentionParams p) {
  Flags used(p.program->outputs.size(), true);
  if (used.size() > kOfBias) used[kOfBias] = false;
  p.program = restricted(*p.program, Flags(p.program->inputs.size(), true), used);
  return p;
}

/// The program of operands with these avals.
ir::Program traced(const Attention& attention, bool backward, const std::vector<Aval>& avals) {
  ir::Builder builder(backward ? "attention_backward" : "attention");
  Values v;
  for (const Aval& aval : avals) v.push_back(builder.input(aval));
  return builder.finish(backward ? attend_backward(attention, v) : attend(attention, v));
}

/// Whether x's dimensions are those of `shape`, or 1.
bool repeats_to(const Shape& x, const Shape& shape) {
  return std::ranges::equal(x, shape, [](std::int64_t a, std::int64_t b) { return a == 1 || a == b; });
}

bool communicates(const ir::Equation& e) { return !e.primitive->exchange(e.params).kind.empty(); }

/// What a device computes, and behind it the sum over devices of the bias's cotangent, a program of one
/// value: where devices have other examples or heads of the same bias.
struct Parts {
  AttentionParams local;
  std::optional<ir::Program> sum;
};

Parts parts_of(const AttentionParams& p) {
  const ir::Program& all = *p.program;
  std::size_t left = 0;
  for_each_equation(all, [&](const ir::Equation& e) { left += communicates(e) ? 1 : 0; });
  if (left == 0 || !has_cotangent_of_bias(p)) return {p, {}};
  ir::Program sum = all;
  sum.equations.clear();
  ir::Var value = all.outputs[kOfBias];
  while (left > 0) {
    const auto made = std::ranges::find(all.equations, std::vector<ir::Var>{value}, &ir::Equation::outputs);
    if (made == all.equations.end() || made->inputs.size() != 1) return {p, {}};
    left -= communicates(*made) ? 1 : 0;
    sum.equations.insert(sum.equations.begin(), *made);
    value = made->inputs[0];
  }
  sum.inputs = {value};
  sum.outputs = {all.outputs[kOfBias]};
  ir::Program local = all;
  local.outputs[kOfBias] = value;
  Parts parts{p, std::move(sum)};
  parts.local.program = shared(eliminate_dead_code(std::move(local)));
  return parts;
}

/// The sum over devices of the bias's cotangent.
std::string summed(ir::Lowering& out, const ir::Program& sum, const std::string& part, const Aval& bias) {
  const Aval aval = sum.input_avals()[0];
  ir::Builder builder("sum_of_bias");
  const ir::Value given = ir::lax::convert_element_type(builder.input(bias), aval.dtype);
  const Values results = inline_program(builder, sum, Values{ir::lax::reshape(given, aval.shape)});
  return out.inlined(builder.finish(results), {part})[0];
}

/// Whether the program is that of whole sequences, which a device has for some examples and heads.
bool has_whole_sequences(const AttentionParams& p) {
  const std::vector<Aval> avals = p.program->input_avals(), output_avals = p.program->output_avals();
  const Shape &q = avals[0].shape, &k = avals[1].shape;
  if (avals[0].num_elements() == 0 || q[1] != p.query_shape[1] || q[3] != p.query_shape[3] ||
      k[1] != p.key_shape[1] || q[2] * p.key_shape[2] != k[2] * p.query_shape[2])
    return false;
  bool is_local = true;
  for_each_equation(*p.program, [&](const ir::Equation& e) { is_local = is_local && !communicates(e); });
  if (!is_local) return false;
  const OptionalOperands given(avals, p.backward);
  const Shape key = {q[0], k[1], k[2], q[3]}, logs = {q[0], k[2], q[1], q[2] / k[2]};
  std::vector<Shape> operands = {q, key, key}, results = {q, logs};
  if (given.lengths) operands.push_back({q[0]});
  for (const auto& terms : {given.mask, given.bias}) {
    if (!terms) continue;
    operands.push_back(avals[*terms].shape);
    if (!repeats_to(operands.back(), {q[0], q[2], q[1], k[1]})) return false;
  }
  if (p.backward) {
    operands.insert(operands.end(), {q, logs, q});
    results = {q, key, key};
    if (has_cotangent_of_bias(p)) {
      results.push_back(output_avals[kOfBias].shape);
      if (output_avals[kOfBias].num_elements() != avals[*given.bias].num_elements()) return false;
    }
  }
  return std::ranges::equal(avals, operands, {}, &Aval::shape) &&
         std::ranges::equal(output_avals, results, {}, &Aval::shape);
}

bool is_by_cudnn(const ir::Lowering& out, const ir::Equation& e, const AttentionParams& p) {
  const bool must_be = p.implementation == "cudnn";
  if (!must_be && (p.implementation || out.cudnn_features() == 0)) return false;
  std::string why_not;
  if (!out.for_cuda())
    why_not = "the program is not compiled for NVIDIA GPUs";
  else if (out.cudnn_features() == 0)
    why_not = "XLA's compiler calls it only where there is a GPU, of compute capability 8.0 or above";
  else if (!has_whole_sequences(p))
    why_not = "a device has no whole sequences, or no whole groups of heads";
  else if (!must_be && cudnn_repeats_terms(p))
    return false;
  else
    why_not =
        why_not_cudnn(p, p.backward || out.is_used(e, 1), out.operand_aval(e, 0).dtype, out.cudnn_features());
  if (must_be && !why_not.empty()) {
    fail(
        "[dot_product_attention] .implementation is kCudnn, but cuDNN cannot compute this attention: {} (at "
        "{}); leave "
        ".implementation unset to let XLA compute it",
        why_not, CallSiteScope::current().to_string());
  }
  return why_not.empty();
}

bool is_by_onednn(const ir::Lowering& out, const AttentionParams& p, DType dtype) {
  if (!out.for_cpu() || p.implementation == "xla" ||
      std::min(p.query_shape[1], p.key_shape[1]) < kLeastByOneDnn || !out.onednn_takes(dtype, dtype) ||
      !onednn::is_available() || !has_whole_sequences(p))
    return false;
  if (!has_cotangent_of_bias(p)) return true;
  // One thread would compute what all examples and heads add to one bias.
  const std::vector<Aval> avals = p.program->input_avals();
  const Shape& bias = avals[*OptionalOperands(avals, true).bias].shape;
  return bias[0] != 1 || bias[1] != 1 || avals[0].shape[0] * avals[1].shape[2] == 1;
}

ir::Lowering::Names onednn_attention(ir::Lowering& out, const ir::Equation& e, const AttentionParams& p) {
  std::vector<std::pair<std::string, Aval>> operands;
  for (std::size_t i = 0; i < e.inputs.size(); ++i)
    operands.emplace_back(out.operand(e, i), out.operand_aval(e, i));
  std::vector<Aval> results;
  for (std::size_t i = 0; i < e.outputs.size(); ++i) results.push_back(out.result_aval(e, i));
  return out.onednn_call(
      fmt::format("operation = \"attention{}\", scale = {} : i64, left = {} : i64, right = {} : i64",
                  p.backward ? "_backward" : "", std::bit_cast<std::int64_t>(p.scale.real),
                  p.left.value_or(-1), p.right.value_or(-1)),
      operands, results);
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<AttentionParams>();
  const Parts parts = parts_of(p);
  ir::Lowering::Names names;
  if (is_by_cudnn(out, e, parts.local)) {
    names = cudnn_attention(out, e);
  } else if (is_by_onednn(out, parts.local, out.operand_aval(e, 0).dtype)) {
    names = onednn_attention(out, e, p);
  } else {
    for (std::size_t i = 0; i < e.inputs.size(); ++i) names.push_back(out.operand(e, i));
    return out.inlined(*p.program, names);
  }
  if (parts.sum) names[kOfBias] = summed(out, *parts.sum, names[kOfBias], out.result_aval(e, kOfBias));
  return names;
}

/// The examples join the batch, if query, key and value have them.
ir::VmapValues batch(const ir::BatchCall& call) {
  const auto& p = call.params.as<AttentionParams>();
  if (!call.batched[0] || !call.batched[1] || !call.batched[2])
    return inline_vmap(call.builder, *p.program, call.inputs, Flags(call.batched.begin(), call.batched.end()),
                       call.axis);
  const std::vector<Aval> of_one = p.program->input_avals();
  const OptionalOperands given(of_one, p.backward);
  const std::int64_t examples = of_one[0].shape[0];
  Values joined;
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    ir::Value all = call.inputs[i];
    Shape shape = of_one[i].shape;
    const bool is_shared = !call.batched[i] && shape[0] == 1 &&
                           (i == given.mask || (i == given.bias && !has_cotangent_of_bias(p)));
    if (!is_shared) {
      if (!call.batched[i]) all = ir::rules::broadcast_leading(all, call.size);
      if (shape[0] != examples) {
        shape[0] = examples;
        all = repeated(all, ir::rules::prepended(call.size, shape));
      }
      shape[0] *= call.size;
      all = ir::lax::reshape(all, shape);
    }
    joined.push_back(all);
    avals.push_back(all.aval());
  }
  AttentionParams of_all =
      attention_of(avals, {p.scale.real, p.block, p.left, p.right, p.implementation}, p.backward);
  if (p.backward && !has_cotangent_of_bias(p)) of_all = without_cotangent_of_bias(std::move(of_all));
  ir::VmapValues out{emit_nested(call.builder, attention_p(), ir::OpParams::of(std::move(of_all)), joined),
                     {}};
  const std::vector<Aval> results = p.program->output_avals();
  for (std::size_t i = 0; i < out.outputs.size(); ++i) {
    ir::Value& result = out.outputs[i];
    Shape shape = result.aval().shape;
    shape[0] = examples;
    shape.insert(shape.begin(), call.size);
    result = ir::lax::reshape(result, shape);
    if (results[i].shape[0] != examples)
      result = ir::lax::reshape(ir::lax::reduce_sum(result, {1}),
                                ir::rules::prepended(call.size, results[i].shape));
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
          .prune = [](const ir::OpParams& params, const Flags& used) -> ir::PrunedEquation {
            const auto& p = params.as<AttentionParams>();
            if (!p.backward || !has_cotangent_of_bias(p) || used[kOfBias])
              return unpruned(params, p.program->inputs.size(), p.program->outputs.size());
            Flags results(p.program->outputs.size(), true);
            results[kOfBias] = false;
            return {ir::OpParams::of(without_cotangent_of_bias(p)), Flags(p.program->inputs.size(), true),
                    results};
          },
      });
  return p;
}

bool has_cotangent_of_bias(const AttentionParams& p) {
  return p.backward && p.program->outputs.size() > kOfBias;
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
  std::ranges::copy_if(operands, std::back_inserter(with_tangents),
                       [](const Aval& operand) { return is_floating(operand.dtype); });
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
            ir::Tangents tangents;
            for (std::size_t next = n; const Aval& operand : operands)
              tangents.push_back(is_floating(operand.dtype) ? std::optional(v[next++]) : std::nullopt);
            const ir::JvpValues values =
                inline_jvp(inner.builder(), *forward.program, std::span(v).first(n), tangents);
            return Values{values.outputs[0], *values.tangents[0]};
          })};
}

}  // namespace lockstep::transforms
