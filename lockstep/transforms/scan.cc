// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/by_element.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/linearize.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/transpose.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;
using Kind = ir::NestedLink::Kind;
constexpr int kEquation = ir::NestedLink::kEquation;

/// The places of a body's inputs and outputs.
struct Layout {
  std::size_t carry, xs, inputs;   ///< the first of the carries, of the xs; the number of all inputs
  std::size_t num_carry, outputs;  ///< outputs: the carries, then the ys

  explicit Layout(const ScanParams& p)
      : carry(static_cast<std::size_t>(p.num_consts)),
        xs(carry + static_cast<std::size_t>(p.num_carry)),
        inputs(p.body->inputs.size()),
        num_carry(static_cast<std::size_t>(p.num_carry)),
        outputs(p.body->outputs.size()) {}
  bool is_const(std::size_t i) const { return i < carry; }
  bool is_carry(std::size_t i) const { return i >= carry && i < xs; }
};

ir::OpParams params_of(ProgramPtr body, std::size_t consts, std::size_t carry, const ScanParams& like,
                       bool reverse) {
  return ir::OpParams::of(ScanParams{std::move(body), static_cast<std::int64_t>(consts),
                                     static_cast<std::int64_t>(carry), like.length, reverse});
}

std::vector<Aval> shape(std::span<const Aval> operands, const ir::OpParams& params) {
  const auto& p = params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  std::vector<Aval> expected = body.input_avals(), results = body.output_avals();
  for (std::size_t i = at.xs; i < at.inputs; ++i) expected[i] = stacked(std::move(expected[i]), p.length);
  check_operands("the scan", operands, expected);
  check_outputs("the scan's body, a carry",
                {results.begin(), results.begin() + static_cast<std::ptrdiff_t>(at.num_carry)},
                {expected.begin() + static_cast<std::ptrdiff_t>(at.carry),
                 expected.begin() + static_cast<std::ptrdiff_t>(at.xs)});
  for (std::size_t k = at.num_carry; k < at.outputs; ++k)
    results[k] = stacked(std::move(results[k]), p.length);
  return results;
}

std::vector<ir::NestedLink> links(const ir::OpParams& params) {
  const Layout at(params.as<ScanParams>());
  std::vector<ir::NestedLink> links;
  for (std::size_t i = 0; i < at.inputs; ++i)
    links.push_back({kEquation, i, 0, i, i < at.xs ? Kind::kSame : Kind::kSlice});
  for (std::size_t k = 0; k < at.outputs; ++k) {
    if (k < at.num_carry) links.push_back({0, k, 0, at.carry + k});
    links.push_back({0, k, kEquation, k, k < at.num_carry ? Kind::kSame : Kind::kStack});
  }
  return links;
}

/// The operand's tangent; zeros if it has none.
ir::Value tangent_of(const ir::NestedJvpCall& call, std::size_t i) {
  return made_explicit(call.builder, call.tangents[i], Aval(call.inputs[i].aval()));
}

/// One scan that does both.
ir::JvpValues joint(const ir::NestedJvpCall& call, const Flags& wrt, const Flags& moved) {
  const auto& p = call.params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  Inner inner(body.name);
  Values inputs, operands;
  ir::Tangents tangents(at.inputs);
  auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      inputs.push_back(inner.input(input_aval(body, i)));
      operands.push_back(call.inputs[i]);
    }
    for (std::size_t i = from; i < to; ++i) {
      if (!wrt[i]) continue;
      tangents[i] = inner.input(input_aval(body, i));
      operands.push_back(tangent_of(call, i));
    }
    return operands.size();
  };
  const std::size_t consts = add(0, at.carry), carry = add(at.carry, at.xs) - consts;
  add(at.xs, at.inputs);
  const ir::JvpValues values = inline_jvp(inner.builder(), body, inputs, tangents);
  Values outputs;
  std::vector<std::pair<std::size_t, bool>>
      places;  // of each output: which of the body's, whether its tangent
  auto add_outputs = [&](std::size_t from, std::size_t to, auto&& has_tangent) {
    for (std::size_t k = from; k < to; ++k) {
      outputs.push_back(values.outputs[k]);
      places.emplace_back(k, false);
    }
    for (std::size_t k = from; k < to; ++k) {
      if (!has_tangent(k)) continue;
      outputs.push_back(made_explicit(inner.builder(), values.tangents[k], output_aval(body, k)));
      places.emplace_back(k, true);
    }
  };
  add_outputs(0, at.num_carry, [&](std::size_t k) { return wrt[at.carry + k]; });
  add_outputs(at.num_carry, at.outputs, [&](std::size_t k) { return moved[k]; });
  const Values results = emit_nested(call.builder, scan_p(),
                                     params_of(inner.finish(outputs), consts, carry, p, p.reverse), operands);
  ir::JvpValues out{{}, ir::Tangents(at.outputs)};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (places[i].second)
      out.tangents[places[i].first] = results[i];
    else
      out.outputs.push_back(results[i]);
  }
  return out;
}

/// A scan that stacks the values that a second one, of the tangents, needs.
ir::JvpValues in_two(const ir::NestedJvpCall& call, const Flags& wrt) {
  const auto& p = call.params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  Flags consts(at.inputs);
  for (std::size_t i = 0; i < at.carry; ++i) consts[i] = true;
  SplitDerivative split = [&] {
    CallSiteReset reset;
    return split_derivative(body, wrt, consts, consts);
  }();
  const Values known = emit_nested(
      call.builder, scan_p(), params_of(shared(std::move(split.known)), at.carry, at.num_carry, p, p.reverse),
      call.inputs);

  Inner inner(body.name);
  std::size_t num_consts = 0, num_carry = 0;
  Values operands, for_consts, for_residuals, for_tangents;
  const ir::Program& linear = split.linear;
  for (std::size_t i = 0; i < at.carry; ++i) {
    for_consts.push_back(inner.input(input_aval(body, i)));
    operands.push_back(call.inputs[i]);
  }
  auto add_tangents = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if (!wrt[i]) continue;
      for_tangents.push_back(inner.input(input_aval(body, i)));
      operands.push_back(tangent_of(call, i));
    }
    return operands.size();
  };
  num_consts = add_tangents(0, at.carry);
  num_carry = add_tangents(at.carry, at.xs) - num_consts;
  for (std::size_t r = 0; r < split.num_residuals; ++r) {
    for_residuals.push_back(inner.input(input_aval(linear, at.carry + r)));
    // The elements that the scan is given are there already: they are not stacked once more.
    const std::optional<std::size_t> input = split.residual_inputs[r];
    operands.push_back(input && *input >= at.xs ? call.inputs[*input] : known[at.outputs + r]);
  }
  add_tangents(at.xs, at.inputs);
  Values inputs = for_consts;
  inputs.insert(inputs.end(), for_residuals.begin(), for_residuals.end());
  inputs.insert(inputs.end(), for_tangents.begin(), for_tangents.end());
  Values tangents = inline_program(inner.builder(), linear, inputs), outputs;
  std::vector<std::size_t> places;
  std::size_t next = 0;
  for (std::size_t k = 0; k < at.outputs; ++k) {
    std::optional<ir::Value> tangent;
    if (split.has_tangent[k]) tangent = tangents[next++];
    if (k < at.num_carry ? !wrt[at.carry + k] : !tangent.has_value()) continue;
    outputs.push_back(made_explicit(inner.builder(), tangent, output_aval(body, k)));
    places.push_back(k);
  }
  ir::JvpValues out{{known.begin(), known.begin() + static_cast<std::ptrdiff_t>(at.outputs)},
                    ir::Tangents(at.outputs)};
  const Values results =
      emit_nested(call.builder, scan_p(),
                  params_of(inner.finish(outputs), num_consts, num_carry, p, p.reverse), operands);
  for (std::size_t i = 0; i < results.size(); ++i) out.tangents[places[i]] = results[i];
  return out;
}

ir::JvpValues derive(const ir::NestedJvpCall& call) {
  const auto& p = call.params.as<ScanParams>();
  const NestedFlow flow =
      nested_flow(scan_p(), call.params, given(call.tangents), p.body->outputs.size(), Flow::kTangents);
  return call.linearize ? in_two(call, flow.inputs[0]) : joint(call, flow.inputs[0], flow.results);
}

/// The scan in reverse order, of cotangents: those of the carry are its carry, and those of the constants are
/// summed. Sums over devices, for constants and elements, are computed after the loop.
ir::Tangents transpose(const ir::TransposeCall& call) {
  const auto& p = call.params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  Flags linear, partial;
  // A carry is linear in the body even if its initial value is known: zeros, for values that are not
  // differentiated.
  for (std::size_t i = 0; i < at.inputs; ++i) {
    linear.push_back(at.is_carry(i) || call.operands[i].linear());
    partial.push_back(!at.is_carry(i));
  }
  Inner inner(body.name);
  Values consts, known, carry, rest;                     // inputs
  Values const_operands, carry_operands, rest_operands;  // and what the scan is given for them
  ir::Tangents cotangents(at.outputs);
  for (std::size_t i = 0; i < at.inputs; ++i) {
    if (linear[i]) continue;
    known.push_back(inner.input(input_aval(body, i)));
    (at.is_const(i) ? consts : rest).push_back(known.back());
    (at.is_const(i) ? const_operands : rest_operands).push_back(*call.operands[i].value);
  }
  for (std::size_t k = 0; k < at.outputs; ++k) {
    const bool carried = k < at.num_carry;
    if (!carried && !call.cotangents[k]) continue;
    cotangents[k] = inner.input(output_aval(body, k));
    (carried ? carry : rest).push_back(*cotangents[k]);
    (carried ? carry_operands : rest_operands)
        .push_back(carried ? made_explicit(call.builder, call.cotangents[k], call.results[k])
                           : *call.cotangents[k]);
  }
  const ir::Tangents pulled = Transposition(inner.builder(), body, linear, known).run(cotangents, partial);
  Values sums, sum_operands, sum_outputs, outputs, y_outputs;
  std::vector<std::size_t> sum_places, places, y_places;
  std::size_t next = 0;
  for (std::size_t i = 0; i < at.inputs; ++i) {
    if (!linear[i]) continue;
    const std::optional<ir::Value>& cotangent = pulled[next++];
    if (at.is_const(i)) {
      Aval aval = input_aval(body, i);
      if (cotangent) aval.varying = cotangent->aval().varying;
      const ir::Value sum = inner.input(aval);
      sums.push_back(sum);
      sum_operands.push_back(zeros(call.builder, aval));
      sum_outputs.push_back(cotangent ? ir::lax::add(sum, *cotangent) : sum);
      sum_places.push_back(i);
    } else if (at.is_carry(i)) {
      outputs.push_back(made_explicit(inner.builder(), cotangent, input_aval(body, i)));
      places.push_back(i);
    } else {
      y_outputs.push_back(made_explicit(inner.builder(), cotangent, input_aval(body, i)));
      y_places.push_back(i);
    }
  }
  auto joined = [](auto first, const auto& second, const auto& third) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  };
  const ProgramPtr turned = inner.finish(joined(sum_outputs, outputs, y_outputs),
                                         joined(joined(consts, sums, carry), rest, Values()));
  const Values results = emit_nested(
      call.builder, scan_p(), params_of(turned, consts.size(), sums.size() + carry.size(), p, !p.reverse),
      joined(joined(const_operands, sum_operands, carry_operands), rest_operands, Values()));
  ir::Tangents out(at.inputs);
  const std::vector<std::size_t> all_places = joined(sum_places, places, y_places);
  for (std::size_t i = 0; i < results.size(); ++i) out[all_places[i]] = results[i];
  return out;
}

/// A carry is batched if its initial value is, or if a step makes it so; found by tracing the body until no
/// other one becomes batched.
ir::VmapValues batching(const ir::BatchCall& call) {
  const auto& p = call.params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  Flags batched(call.batched.begin(), call.batched.end());
  for (;;) {
    Inner inner(body.name);
    ir::VmapValues values =
        inline_vmap(inner.builder(), body, inputs_of(inner, body, batched, call.axis), batched, call.axis);
    if (widen(batched, at.carry, values, at.num_carry, call.axis)) continue;
    const ProgramPtr made = inner.finish(values.outputs);

    Values operands;
    for (std::size_t i = 0; i < at.inputs; ++i) {
      ir::Value operand = call.inputs[i];
      if (batched[i] && i >= at.xs) operand = swap_leading(operand);
      if (batched[i] && !call.batched[i]) operand = ir::rules::broadcast_leading(operand, call.size);
      operands.push_back(operand);
    }
    Values results =
        emit_nested(call.builder, scan_p(), params_of(made, at.carry, at.num_carry, p, p.reverse), operands);
    for (std::size_t k = at.num_carry; k < at.outputs; ++k) {
      if (values.batched[k]) results[k] = swap_leading(results[k]);
    }
    return {std::move(results), std::move(values.batched)};
  }
}

ir::PrunedEquation prune(const ir::OpParams& params, const Flags& used) {
  const auto& p = params.as<ScanParams>();
  const Layout at(p);
  Flags outputs = used, inputs;
  for (bool changed = true; changed;) {
    changed = false;
    inputs = live_inputs(*p.body, outputs);
    for (std::size_t k = 0; k < at.num_carry; ++k) {
      if (outputs[k] || !inputs[at.carry + k]) continue;
      outputs[k] = changed = true;
    }
  }
  for (std::size_t k = 0; k < at.num_carry; ++k) inputs[at.carry + k] = outputs[k];
  const auto consts =
      std::count(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(at.carry), true);
  const auto carry =
      std::count(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(at.num_carry), true);
  return {params_of(restricted(*p.body, inputs, outputs), static_cast<std::size_t>(consts),
                    static_cast<std::size_t>(carry), p, p.reverse),
          inputs, outputs};
}

/// Carries below this size are not worth a second copy of the body.
constexpr std::int64_t kLargeCarry = 64 << 10;

/// Bodies above this size take long to compile.
constexpr std::size_t kMostDoubled = 200;

/// Whether XLA would copy a large carry in each step: its next value is another carry, or is computed
/// element by element from a carry's other elements, as in a stencil, so that it cannot be written over it.
bool copies_a_carry(const ir::Program& body, const Layout& at) {
  if (body.equations.size() > kMostDoubled) return false;
  const std::vector<const ir::Equation*> made_by = ir::equations_of_variables(body);
  std::vector<bool> is_carry(body.variables.size());
  for (std::size_t i = at.carry; i < at.xs; ++i) is_carry[static_cast<std::size_t>(body.inputs[i])] = true;
  const auto moves = [](const ir::Primitive* primitive) {
    return primitive == &ir::slice_p() || primitive == &ir::pad_p() || primitive == &ir::concatenate_p() ||
           primitive == &ir::rev_p() || primitive == &ir::dynamic_slice_p();
  };
  for (std::size_t k = 0; k < at.num_carry; ++k) {
    const ir::Var result = body.outputs[k];
    const Aval& aval = body.aval(result);
    if (aval.bytes() < kLargeCarry) continue;
    if (is_carry[static_cast<std::size_t>(result)] && result != body.inputs[at.carry + k]) return true;
    // Each variable with whether an operation on the way from it moves elements.
    std::vector<std::pair<ir::Var, bool>> due = {{result, false}};
    std::vector<std::array<bool, 2>> seen(body.variables.size());
    while (!due.empty()) {
      const auto [var, moved] = due.back();
      due.pop_back();
      bool& was_here = seen[static_cast<std::size_t>(var)][moved ? 1 : 0];
      if (std::exchange(was_here, true)) continue;
      if (moved && is_carry[static_cast<std::size_t>(var)] && body.aval(var).bytes() >= kLargeCarry)
        return true;
      const ir::Equation* const equation = made_by[static_cast<std::size_t>(var)];
      if (equation == nullptr) continue;
      const bool mover = moves(equation->primitive);
      if (!mover && !is_by_element(body, *equation)) continue;
      for (ir::Var input : equation->inputs) due.emplace_back(input, moved || mover);
    }
  }
  return false;
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  const auto& p = e.params.as<ScanParams>();
  const Layout at(p);
  const ir::Program& body = *p.body;
  const DType index_dtype = place_dtype(p.length);
  const std::string index_type = ir::mlir_type(index_dtype, {});
  auto number = [&](std::int64_t value) { return out.splat(ir::Scalar::of(value), index_dtype, {}); };
  auto binary = [&](std::string_view name, const std::string& a, const std::string& b) {
    const std::string operands[] = {a, b}, types[] = {index_type, index_type};
    return out.op(name, operands, types, index_type);
  };
  std::vector<std::string> initial = {number(0)}, types = {index_type};
  for (std::size_t k = 0; k < at.outputs; ++k) {
    const Aval& aval = out.result_aval(e, k);
    types.push_back(ir::mlir_type(aval));
    initial.push_back(k < at.num_carry
                          ? out.operand(e, at.carry + k)
                          : out.splat(is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0),
                                      aval.dtype, aval.shape));
  }
  if (p.length == 0) return {initial.begin() + 1, initial.end()};
  const std::string one = number(1), zero = initial[0], length = number(p.length),
                    last = number(p.length - 1);
  auto condition = [&](const ir::Lowering::Names& values) {
    return out.compare("LT", values[0], length, index_dtype, {});
  };
  auto step = [&](const ir::Lowering::Names& values) {
    const std::string place = p.reverse ? binary("stablehlo.subtract", last, values[0]) : values[0];
    auto starts = [&](std::vector<std::string>& operands, std::vector<std::string>& operand_types,
                      std::size_t rank) {
      for (std::size_t d = 0; d < rank; ++d) {
        operands.push_back(d == 0 ? place : zero);
        operand_types.push_back(index_type);
      }
    };
    ir::Lowering::Names inputs;
    for (std::size_t i = 0; i < at.inputs; ++i) {
      if (!at.is_carry(i) && i < at.xs) inputs.push_back(out.operand(e, i));
      if (at.is_carry(i)) inputs.push_back(values[1 + i - at.carry]);
      if (i < at.xs) continue;
      const Aval& element = input_aval(body, i);
      const Shape sizes = ir::rules::prepended(1, element.shape);
      std::vector<std::string> operands = {out.operand(e, i)}, operand_types = {out.operand_type(e, i)};
      starts(operands, operand_types, sizes.size());
      const std::string slice[] = {out.op("stablehlo.dynamic_slice", operands, operand_types,
                                          ir::mlir_type(element.dtype, sizes),
                                          "slice_sizes = " + ir::mlir_array(sizes))};
      const std::string slice_type[] = {ir::mlir_type(element.dtype, sizes)};
      inputs.push_back(out.op("stablehlo.reshape", slice, slice_type, ir::mlir_type(element)));
    }
    const ir::Lowering::Names outputs = out.inlined(body, inputs);
    ir::Lowering::Names next = {binary("stablehlo.add", values[0], one)};
    for (std::size_t k = 0; k < at.outputs; ++k) {
      if (k < at.num_carry) {
        next.push_back(outputs[k]);
        continue;
      }
      const Aval& element = output_aval(body, k);
      const std::string row_type = ir::mlir_type(element.dtype, ir::rules::prepended(1, element.shape));
      const std::string y[] = {outputs[k]}, y_type[] = {ir::mlir_type(element)};
      std::vector<std::string> operands = {values[1 + k], out.op("stablehlo.reshape", y, y_type, row_type)};
      std::vector<std::string> operand_types = {types[1 + k], row_type};
      starts(operands, operand_types, element.shape.size() + 1);
      next.push_back(out.op("stablehlo.dynamic_update_slice", operands, operand_types, types[1 + k]));
    }
    return next;
  };
  ir::Lowering::Names results;
  if (out.for_cpu() && p.length > 1 && copies_a_carry(body, at)) {
    // Two steps at a time: the first writes to another buffer, the second back. XLA must not make one
    // computation of them, which would compute the first step for each of its neighbours.
    const auto two_steps = [&](const ir::Lowering::Names& values) {
      ir::Lowering::Names between = step(values);
      const ir::Lowering::Names carries(between.begin() + 1, between.end());
      const std::vector<std::string> carry_types(types.begin() + 1, types.end());
      std::ranges::copy(out.barrier(carries, carry_types), between.begin() + 1);
      return step(between);
    };
    if (p.length % 2 == 1) initial = step(initial);
    results = out.loop(initial, types, condition, two_steps);
  } else {
    results = out.loop(initial, types, condition, step);
  }
  results.erase(results.begin());
  return results;
}

}  // namespace

const ir::Primitive& scan_p() {
  static const ir::Primitive p =
      nested_primitive("scan", shape, transpose, write,
                       ir::NestedRules{
                           .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
                             return {{params.as<ScanParams>().body, params.as<ScanParams>().length}};
                           },
                           .links = links,
                           .with_programs =
                               [](const ir::OpParams& params, std::vector<ProgramPtr> programs) {
                                 ScanParams p = params.as<ScanParams>();
                                 p.body = programs.front();
                                 return ir::OpParams::of(std::move(p));
                               },
                           .jvp = derive,
                           .batching = batching,
                           .prune = prune,
                       });
  return p;
}

}  // namespace lockstep::transforms
