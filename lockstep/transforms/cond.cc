// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/linearize.h"
#include "lockstep/transforms/nested.h"
#include "lockstep/transforms/transpose.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using Flags = std::vector<bool>;
constexpr int kEquation = ir::NestedLink::kEquation;

const std::vector<ProgramPtr>& branches_of(const ir::OpParams& params) {
  return params.as<CondParams>().branches;
}

std::vector<Aval> shape(std::span<const Aval> operands, const ir::OpParams& params) {
  const auto& branches = branches_of(params);
  if (operands.empty() || operands[0].dtype != DType::kI32 || !operands[0].shape.empty()) {
    fail<ShapeError>("expected an i32 scalar to choose the branch, got {}",
                     operands.empty() ? "nothing" : to_string(operands[0]));
  }
  std::vector<Aval> results = branches.front()->output_avals();
  for (Aval& result : results) result.varying = ir::both(result.varying, operands[0].varying);
  for (const ProgramPtr& branch : branches) {
    check_operands("a branch", operands.subspan(1), branch->input_avals());
    check_outputs("a branch", branch->output_avals(), results);
    for (std::size_t k = 0; k < results.size(); ++k)
      results[k].varying = ir::both(results[k].varying, output_aval(*branch, k).varying);
  }
  return results;
}

std::vector<ir::NestedLink> links(const ir::OpParams& params) {
  const auto& branches = branches_of(params);
  std::vector<ir::NestedLink> links;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const int program = static_cast<int>(b);
    for (std::size_t i = 0; i < branches[b]->inputs.size(); ++i)
      links.push_back({kEquation, i + 1, program, i});
    for (std::size_t k = 0; k < branches[b]->outputs.size(); ++k) links.push_back({program, k, kEquation, k});
  }
  return links;
}

ir::OpParams params_of(std::vector<ProgramPtr> branches) {
  return ir::OpParams::of(CondParams{std::move(branches)});
}

/// The tangents of the operands that have one, with their avals.
struct Moving {
  Flags wrt;        // of each operand of the branches
  Values tangents;  // of those that have one
};
Moving moving_operands(const ir::NestedJvpCall& call) {
  Moving out;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    out.wrt.push_back(call.tangents[i].has_value());
    if (call.tangents[i])
      out.tangents.push_back(made_explicit(call.builder, call.tangents[i], Aval(call.inputs[i].aval())));
  }
  return out;
}

ir::JvpValues joint(const ir::NestedJvpCall& call) {
  const auto& branches = branches_of(call.params);
  const std::size_t n = branches.front()->outputs.size();
  const Moving moving = moving_operands(call);
  const Flags moved = nested_flow(cond_p(), call.params, given(call.tangents), n, Flow::kTangents).results;
  std::vector<ProgramPtr> made;
  for (const ProgramPtr& branch : branches) {
    Inner inner(branch->name);
    Values inputs;
    ir::Tangents tangents(branch->inputs.size());
    for (const Aval& aval : branch->input_avals()) inputs.push_back(inner.input(aval));
    for (std::size_t i = 0; i < tangents.size(); ++i) {
      if (moving.wrt[i]) tangents[i] = inner.input(input_aval(*branch, i));
    }
    const ir::JvpValues values = inline_jvp(inner.builder(), *branch, inputs, tangents);
    Values outputs = values.outputs;
    for (std::size_t k = 0; k < n; ++k) {
      if (moved[k])
        outputs.push_back(made_explicit(inner.builder(), values.tangents[k], output_aval(*branch, k)));
    }
    made.push_back(inner.finish(outputs));
  }
  Values operands(call.inputs.begin(), call.inputs.end());
  operands.insert(operands.end(), moving.tangents.begin(), moving.tangents.end());
  Values results = emit_nested(call.builder, cond_p(), params_of(std::move(made)), operands);
  ir::JvpValues out{{results.begin(), results.begin() + static_cast<std::ptrdiff_t>(n)}, ir::Tangents(n)};
  auto next = results.begin() + static_cast<std::ptrdiff_t>(n);
  for (std::size_t k = 0; k < n; ++k) {
    if (moved[k]) out.tangents[k] = *next++;
  }
  return out;
}

/// A cond that also returns the values that a second one, of the tangents, needs. The branches share the
/// positions of their residuals; a branch without one returns zeros.
ir::JvpValues in_two(const ir::NestedJvpCall& call) {
  const auto& branches = branches_of(call.params);
  const std::size_t n = branches.front()->outputs.size(), num_inputs = branches.front()->inputs.size();
  const Moving moving = moving_operands(call);
  std::vector<SplitDerivative> splits;
  std::vector<Aval> slots;
  std::vector<std::vector<std::size_t>> slot_of;  // of each branch's residuals
  Flags moved(n);
  for (const ProgramPtr& branch : branches) {
    CallSiteReset reset;
    const SplitDerivative& split = splits.emplace_back(
        split_derivative(*branch, moving.wrt, Flags(num_inputs, true), Flags(num_inputs, false)));
    for (std::size_t k = 0; k < n; ++k) moved[k] = moved[k] || split.has_tangent[k];
    Flags taken(slots.size());
    auto& places = slot_of.emplace_back();
    for (std::size_t r = 0; r < split.num_residuals; ++r) {
      const Aval& aval = output_aval(split.known, n + r);
      // The type is the same in all branches: a slot that varied only because another branch's value varies
      // would make the values computed from it vary, too, and their derivative a sum over the devices.
      const auto is_alike = [&](const Aval& slot) {
        return slot.dtype == aval.dtype && slot.shape == aval.shape && slot.varying == aval.varying;
      };
      std::size_t s = 0;
      while (s < taken.size() && (taken[s] || !is_alike(slots[s]))) ++s;
      if (s == taken.size()) {
        slots.push_back(aval);
        taken.push_back(true);
      }
      taken[s] = true;
      places.push_back(s);
    }
  }
  std::vector<ProgramPtr> known, linear;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const SplitDerivative& split = splits[b];
    Inner inner(branches[b]->name);
    Values inputs;
    for (const Aval& aval : branches[b]->input_avals()) inputs.push_back(inner.input(aval));
    Values values = inline_program(inner.builder(), split.known, inputs);
    ir::Tangents residuals(slots.size());
    for (std::size_t r = 0; r < slot_of[b].size(); ++r) residuals[slot_of[b][r]] = values[n + r];
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(n), values.end());
    for (std::size_t s = 0; s < slots.size(); ++s) {
      values.push_back(residuals[s] ? *residuals[s] : zeros(inner.builder(), slots[s]));
    }
    known.push_back(inner.finish(values));
  }
  const Values first = emit_nested(call.builder, cond_p(), params_of(std::move(known)), call.inputs);

  for (std::size_t b = 0; b < branches.size(); ++b) {
    const SplitDerivative& split = splits[b];
    Inner inner(branches[b]->name);
    Values inputs, residuals;
    for (const Aval& aval : branches[b]->input_avals()) inputs.push_back(inner.input(aval));
    for (std::size_t s = 0; s < slots.size(); ++s) residuals.push_back(inner.input(first[n + s].aval()));
    for (std::size_t s : slot_of[b]) inputs.push_back(residuals[s]);
    for (std::size_t i = 0; i < num_inputs; ++i) {
      if (moving.wrt[i]) inputs.push_back(inner.input(input_aval(*branches[b], i)));
    }
    const Values tangents = inline_program(inner.builder(), split.linear, inputs);
    Values outputs;
    std::size_t next = 0;
    for (std::size_t k = 0; k < n; ++k) {
      std::optional<ir::Value> tangent;
      if (split.has_tangent[k]) tangent = tangents[next++];
      if (moved[k]) outputs.push_back(made_explicit(inner.builder(), tangent, output_aval(*branches[b], k)));
    }
    linear.push_back(inner.finish(outputs));
  }
  Values operands(call.inputs.begin(), call.inputs.end());
  operands.insert(operands.end(), first.begin() + static_cast<std::ptrdiff_t>(n), first.end());
  operands.insert(operands.end(), moving.tangents.begin(), moving.tangents.end());
  const Values results = emit_nested(call.builder, cond_p(), params_of(std::move(linear)), operands);
  ir::JvpValues out{{first.begin(), first.begin() + static_cast<std::ptrdiff_t>(n)}, ir::Tangents(n)};
  std::size_t next = 0;
  for (std::size_t k = 0; k < n; ++k) {
    if (moved[k]) out.tangents[k] = results[next++];
  }
  return out;
}

ir::Tangents transpose(const ir::TransposeCall& call) {
  const auto& branches = branches_of(call.params);
  Flags linear;
  Values operands = {*call.operands[0].value};
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    linear.push_back(call.operands[i].linear());
    if (call.operands[i].value) operands.push_back(*call.operands[i].value);
  }
  for (const auto& cotangent : call.cotangents) {
    if (cotangent) operands.push_back(*cotangent);
  }
  std::vector<ProgramPtr> made;
  for (const ProgramPtr& branch : branches) {
    Inner inner(branch->name);
    Values known;
    for (std::size_t i = 0; i < linear.size(); ++i) {
      if (!linear[i]) known.push_back(inner.input(input_aval(*branch, i)));
    }
    ir::Tangents cotangents(branch->outputs.size());
    for (std::size_t k = 0; k < cotangents.size(); ++k) {
      if (call.cotangents[k]) cotangents[k] = inner.input(Aval(call.results[k]));
    }
    const ir::Tangents pulled = Transposition(inner.builder(), *branch, linear, known).run(cotangents);
    Values outputs;
    std::size_t next = 0;
    for (std::size_t i = 0; i < linear.size(); ++i) {
      if (linear[i])
        outputs.push_back(made_explicit(inner.builder(), pulled[next++], input_aval(*branch, i)));
    }
    made.push_back(inner.finish(outputs));
  }
  const Values results = emit_nested(call.builder, cond_p(), params_of(std::move(made)), operands);
  ir::Tangents out(call.operands.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (linear[i]) out[i + 1] = results[next++];
  }
  return out;
}

/// For each example whether it takes the branch, in this shape.
ir::Value takes(const ir::Value& index, std::size_t branch, const Shape& shape) {
  const ir::Value here = ir::lax::eq(index, ir::lax::full_like(index, static_cast<double>(branch)));
  return ir::lax::broadcast_in_dim(here, shape, {0});
}

/// For each example its branch's values, of those of all branches.
ir::Value selected(const ir::Value& index, const std::vector<ir::Value>& values) {
  ir::Value out = values.back();
  for (std::size_t b = values.size() - 1; b-- > 0;)
    out = ir::lax::select(takes(index, b, out.aval().shape), values[b], out);
  return out;
}

/// All examples compute all branches. The examples that do not take a branch have no derivative by its
/// operands, so that a pole there does not make a NaN of the zero that they get.
ir::VmapValues all_branches(const ir::BatchCall& call) {
  const auto& branches = branches_of(call.params);
  const ir::Value& index = call.inputs[0];
  std::vector<Values> candidates(branches.front()->outputs.size());
  for (std::size_t b = 0; b < branches.size(); ++b) {
    Values operands(call.inputs.begin() + 1, call.inputs.end());
    Flags flags(call.batched.begin() + 1, call.batched.end());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      ir::Value& x = operands[i];
      if (!is_inexact(x.aval().dtype)) continue;
      if (!flags[i]) x = ir::rules::broadcast_leading(x, call.size);
      flags[i] = true;
      x = ir::lax::select(takes(index, b, x.aval().shape), x, ir::lax::stop_gradient(x));
    }
    ir::VmapValues values = inline_vmap(call.builder, *branches[b], operands, flags, call.axis);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      candidates[k].push_back(values.batched[k] ? values.outputs[k]
                                                : ir::rules::broadcast_leading(values.outputs[k], call.size));
    }
  }
  ir::VmapValues out{{}, Flags(candidates.size(), true)};
  for (const Values& of_branches : candidates) out.outputs.push_back(selected(index, of_branches));
  return out;
}

ir::VmapValues batching(const ir::BatchCall& call) {
  if (call.batched[0]) return all_branches(call);
  const auto& branches = branches_of(call.params);
  const std::size_t n = branches.front()->outputs.size();
  const Flags flags(call.batched.begin() + 1, call.batched.end());
  auto batched_output = [&](ir::VmapValues& values, std::size_t k) {
    if (!values.batched[k]) values.outputs[k] = ir::rules::broadcast_leading(values.outputs[k], call.size);
    values.batched[k] = true;
  };
  // Each branch by itself first; then an output is batched in all branches if it is batched in one.
  std::vector<ProgramPtr> made;
  std::vector<Flags> given;
  Flags batched(n);
  for (const ProgramPtr& branch : branches) {
    Inner inner(branch->name);
    ir::VmapValues values =
        inline_vmap(inner.builder(), *branch, inputs_of(inner, *branch, flags, call.axis), flags, call.axis);
    for (std::size_t k = 0; k < n; ++k) batched[k] = batched[k] || values.batched[k];
    given.push_back(values.batched);
    made.push_back(inner.finish(values.outputs));
  }
  for (std::size_t b = 0; b < made.size(); ++b) {
    if (given[b] == batched) continue;
    Inner inner(made[b]->name);
    ir::VmapValues values{
        inline_program(inner.builder(), *made[b], inputs_of(inner, *branches[b], flags, call.axis)),
        given[b]};
    for (std::size_t k = 0; k < n; ++k) {
      if (batched[k]) batched_output(values, k);
    }
    made[b] = inner.finish(values.outputs);
  }
  return {emit_nested(call.builder, cond_p(), params_of(std::move(made)), call.inputs), batched};
}

ir::PrunedEquation prune(const ir::OpParams& params, const Flags& used) {
  const auto& branches = branches_of(params);
  Flags inputs(branches.front()->inputs.size());
  for (const ProgramPtr& branch : branches) {
    const Flags live = live_inputs(*branch, used);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs[i] || live[i];
  }
  std::vector<ProgramPtr> made;
  for (const ProgramPtr& branch : branches) made.push_back(restricted(*branch, inputs, used));
  Flags operands = {true};
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return {params_of(std::move(made)), operands, used};
}

std::vector<std::string> write(ir::Lowering& out, const ir::Equation& e) {
  std::vector<std::string> operands, types;
  for (std::size_t i = 1; i < e.inputs.size(); ++i) operands.push_back(out.operand(e, i));
  for (std::size_t k = 0; k < e.outputs.size(); ++k) types.push_back(out.result_type(e, k));
  std::vector<std::function<ir::Lowering::Names()>> branches;
  for (const ProgramPtr& branch : branches_of(e.params))
    branches.emplace_back([&out, &operands, branch] { return out.inlined(*branch, operands); });
  if (branches.size() == 1) return branches.front()();
  return out.choice(out.operand(e, 0), types, branches);
}

}  // namespace

const ir::Primitive& cond_p() {
  static const ir::Primitive p = nested_primitive(
      "cond", shape, transpose, write,
      ir::NestedRules{
          .programs = [](const ir::OpParams& params) -> std::vector<ir::NestedProgram> {
            std::vector<ir::NestedProgram> programs;
            for (const ProgramPtr& branch : branches_of(params)) programs.push_back({branch, 1, true});
            return programs;
          },
          .links = links,
          .with_programs = [](const ir::OpParams&,
                              std::vector<ProgramPtr> programs) { return params_of(std::move(programs)); },
          .jvp = [](const ir::NestedJvpCall& call) { return call.linearize ? in_two(call) : joint(call); },
          .batching = batching,
          .prune = prune,
      });
  return p;
}

}  // namespace lockstep::transforms
