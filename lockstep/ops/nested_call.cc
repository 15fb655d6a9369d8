// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/nested_call.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lockstep/array/data.h"
#include "lockstep/base/call_site_reset.h"
#include "lockstep/base/fail.h"
#include "lockstep/ops/promotion.h"
#include "lockstep/program/axis_sets.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::internal {
namespace {

Array made(const Array& x, const Aval& aval) {
  return ir::lax::vary_over(ir::lax::convert_element_type(x, aval.dtype, aval.weak_type), aval.varying);
}

/// A list of arrays that a loop carries.
TreeOutline outline_of(std::size_t count) {
  TreeOutline outline;
  for (std::size_t i = 0; i < count; ++i) outline.paths.push_back(fmt::format("carry[{}]", i));
  return outline;
}

/// The program for operands that may vary over more axes than its inputs, with outputs of these avals.
transforms::ProgramPtr conforming(const ir::Program& program, const std::vector<Array>& operands,
                                  const std::vector<Aval>& results) {
  CallSiteReset reset;
  ir::Builder builder(program.name);
  std::vector<ir::Value> values;
  for (const Array& operand : operands) values.push_back(builder.input(operand.aval()));
  values = transforms::inline_program(builder, program, values);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = ir::lax::convert_element_type(values[k], results[k].dtype, results[k].weak_type);
    values[k] = ir::lax::vary_over(values[k], results[k].varying);
  }
  return transforms::shared(builder.finish(values));
}

}  // namespace

std::vector<Array> merge_captures(std::vector<TracedProgram*> programs) {
  std::vector<Array> all;
  std::map<const void*, std::size_t> places;
  for (const TracedProgram* traced : programs) {
    for (const Array& array : traced->captures) {
      if (places.emplace(internal::data_of(array).get(), all.size()).second) all.push_back(array);
    }
  }
  for (TracedProgram* traced : programs) {
    ir::Program& program = traced->program;
    std::vector<ir::Var> inputs(all.size(), -1);
    const std::size_t own = program.inputs.size() - traced->captures.size();
    for (std::size_t i = 0; i < traced->captures.size(); ++i)
      inputs[places.at(internal::data_of(traced->captures[i]).get())] = program.inputs[own + i];
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] >= 0) continue;
      inputs[i] = static_cast<ir::Var>(program.variables.size());
      program.variables.push_back(all[i].aval());
    }
    inputs.insert(inputs.end(), program.inputs.begin(),
                  program.inputs.begin() + static_cast<std::ptrdiff_t>(own));
    program.inputs = std::move(inputs);
    traced->captures = all;
  }
  return all;
}

std::vector<Array> emit_nested(const ir::Primitive& primitive, ir::OpParams params,
                               const std::vector<Array>& operands) {
  Trace& trace = *Trace::current();
  std::vector<ir::Value> values;
  for (const Array& array : operands) values.push_back(trace.value_of(array));
  std::vector<Array> results;
  for (const ir::Value& value :
       transforms::emit_nested(trace.builder(), primitive, std::move(params), values))
    results.push_back(trace.wrap(value));
  return results;
}

LoopCarry::LoopCarry(std::string operation, TreeOutline carry, std::vector<Array> initial,
                     const CallSite& site)
    : operation_(std::move(operation)),
      outline_(std::move(carry)),
      initial_(std::move(initial)),
      site_(site.to_string()) {
  for (const Array& array : initial_) avals_.push_back(array.aval());
}

std::vector<Array> LoopCarry::tracers(Trace& trace) const {
  std::vector<Array> out;
  for (const Aval& aval : avals_) out.push_back(trace.input(aval));
  return out;
}

bool LoopCarry::settle(const TreeOutline& outline, std::vector<Array>& next) {
  if (outline.structure != outline_.structure || outline.paths != outline_.paths) {
    const auto differ = std::ranges::mismatch(outline_.paths, outline.paths);
    auto text = [](const TreeOutline& all, auto at) {
      return fmt::format(
          "{} arrays{}{}", all.paths.size(), at == all.paths.end() ? std::string() : ", there " + *at,
          all.structure.empty() ? "" : " and " + all.structure.substr(0, all.structure.size() - 1));
    };
    fail<TraceError>(
        "[{}] the carry changes its structure: it starts with {}, but a step gives {} (at {}); give the same "
        "number of arrays and the same numbers from each step",
        operation_, text(outline_, differ.in1), text(outline, differ.in2), site_);
  }
  bool settled = true;
  for (std::size_t i = 0; i < avals_.size(); ++i) {
    Aval& aval = avals_[i];
    const Aval given = next[i].aval();
    const std::vector<ElementType> types = {{aval.dtype, aval.weak_type}, {given.dtype, given.weak_type}};
    const bool grows = aval.weak_type && promote(operation_, types).dtype == given.dtype;
    if (given.shape != aval.shape || (given.dtype != aval.dtype && !grows)) {
      fail<TraceError>(
          "[{}] the carry changes its type: {} is {} at the start and {} after a step (at {}); give the same "
          "shape and dtype from each step, with reshape or astype, or start with another",
          operation_, outline_.paths[i], to_string(Aval{aval.dtype, aval.shape, aval.weak_type, {}}),
          to_string(Aval{given.dtype, given.shape, given.weak_type, {}}), site_);
    }
    if (given.dtype != aval.dtype || (aval.weak_type && !given.weak_type)) {
      aval.dtype = given.dtype;
      aval.weak_type = given.weak_type;
      settled = false;
    }
    if (!ir::minus(given.varying, aval.varying).empty()) {
      aval.varying = ir::both(aval.varying, given.varying);
      settled = false;
    }
    if (settled) next[i] = made(next[i], aval);
  }
  return settled;
}

bool LoopCarry::vary(const std::vector<std::string>& axes) {
  bool changed = false;
  for (Aval& aval : avals_) {
    if (ir::minus(axes, aval.varying).empty()) continue;
    aval.varying = ir::both(aval.varying, axes);
    changed = true;
  }
  return changed;
}

std::vector<Array> LoopCarry::initial() const {
  std::vector<Array> out;
  for (std::size_t i = 0; i < avals_.size(); ++i) out.push_back(made(initial_[i], avals_[i]));
  return out;
}

ir::Program captures_first(TracedProgram traced) {
  merge_captures({&traced});
  return std::move(traced.program);
}

void check_predicate(const char* operation, const Aval& aval, const CallSite& site) {
  if (aval.dtype == DType::kBool && aval.shape.empty()) return;
  fail<TraceError>(
      "[{}] expected a condition that is a bool scalar, got {} (at {}); compare, and reduce with all or any",
      operation, to_string(aval), site.to_string());
}

std::vector<Array> while_of_arrays(const char* operation, TreeOutline outline, std::vector<Array> initial,
                                   const Condition& condition, const Step& step, const CallSite& site) {
  LoopCarry carry(operation, std::move(outline), std::move(initial), site);
  for (;;) {
    TracedProgram go_on, body;
    {
      Trace trace("condition");
      const Array value = condition(carry.tracers(trace));
      check_predicate(operation, value.aval(), site);
      if (carry.vary(value.aval().varying)) continue;
      go_on = {trace.finish(std::vector<Array>{value}), trace.captures()};
    }
    {
      Trace trace("body");
      auto [names, outputs] = step(carry.tracers(trace));
      if (!carry.settle(names, outputs)) continue;
      body = {trace.finish(outputs), trace.captures()};
    }
    CallSiteScope scope(site);
    std::vector<Array> operands = go_on.captures;
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    for (Array& array : carry.initial()) operands.push_back(std::move(array));
    const auto condition_consts = static_cast<std::int64_t>(go_on.captures.size()),
               body_consts = static_cast<std::int64_t>(body.captures.size());
    return emit_nested(
        transforms::while_p(),
        ir::OpParams::of(transforms::WhileParams{transforms::shared(captures_first(std::move(go_on))),
                                                 transforms::shared(captures_first(std::move(body))),
                                                 condition_consts, body_consts}),
        operands);
  }
}

std::vector<Array> while_of_arrays(const char* operation, std::vector<Array> initial,
                                   const Condition& condition,
                                   const std::function<std::vector<Array>(const std::vector<Array>&)>& step) {
  const TreeOutline outline = outline_of(initial.size());
  return while_of_arrays(
      operation, outline, std::move(initial), condition,
      [&](const std::vector<Array>& carry) { return std::pair(outline, step(carry)); },
      CallSiteScope::current());
}

std::vector<Array> scan_of_arrays(
    const char* operation, std::vector<Array> initial, const std::vector<Array>& xs, std::int64_t length,
    const std::function<std::vector<Array>(const std::vector<Array>& carry,
                                           const std::vector<Array>& elements)>& step) {
  const TreeOutline outline = outline_of(initial.size());
  LoopCarry carry(operation, outline, std::move(initial), CallSiteScope::current());
  for (;;) {
    TracedProgram body;
    {
      Trace trace("scan");
      const std::vector<Array> before = carry.tracers(trace);
      std::vector<Array> elements;
      for (const Array& x : xs) {
        Aval aval = x.aval();
        aval.shape.erase(aval.shape.begin());
        elements.push_back(trace.input(aval));
      }
      std::vector<Array> after = step(before, elements);
      if (!carry.settle(outline, after)) continue;
      body = {trace.finish(after), trace.captures()};
    }
    std::vector<Array> operands = body.captures;
    const auto num_consts = static_cast<std::int64_t>(operands.size());
    for (Array& array : carry.initial()) operands.push_back(std::move(array));
    operands.insert(operands.end(), xs.begin(), xs.end());
    return emit_nested(transforms::scan_p(),
                       ir::OpParams::of(transforms::ScanParams{
                           transforms::shared(captures_first(std::move(body))), num_consts,
                           static_cast<std::int64_t>(carry.size()), length, false}),
                       operands);
  }
}

std::vector<Array> emit_branches(const Array& index, std::vector<TracedProgram>& branches,
                                 const std::vector<Aval>& results, const std::vector<Array>& operands) {
  std::vector<TracedProgram*> all;
  for (TracedProgram& branch : branches) all.push_back(&branch);
  std::vector<Array> inputs = merge_captures(all);
  for (Array& input : inputs) input = ir::lax::vary_over(input, index.aval().varying);
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  std::vector<transforms::ProgramPtr> programs;
  for (const TracedProgram& branch : branches)
    programs.push_back(conforming(branch.program, inputs, results));
  inputs.insert(inputs.begin(), index);
  return emit_nested(transforms::cond_p(), ir::OpParams::of(transforms::CondParams{std::move(programs)}),
                     inputs);
}

std::vector<Array> cond_of_arrays(const Array& predicate, const std::vector<Array>& otherwise,
                                  const std::function<std::vector<Array>()>& function) {
  std::vector<TracedProgram> branches(2);
  {
    Trace trace("cond");
    ir::Program program = trace.finish(otherwise);
    branches[0] = {std::move(program), trace.captures()};
  }
  {
    Trace trace("cond");
    ir::Program program = trace.finish(function());
    branches[1] = {std::move(program), trace.captures()};
  }
  std::vector<Aval> results = branches[0].program.output_avals();
  const std::vector<Aval> others = branches[1].program.output_avals();
  for (std::size_t k = 0; k < results.size(); ++k)
    results[k].varying = ir::both(ir::both(results[k].varying, others[k].varying), predicate.aval().varying);
  return emit_branches(ir::lax::convert_element_type(predicate, DType::kI32), branches, results, {});
}

std::vector<Array> recomputed(const std::function<std::vector<Array>()>& function) {
  TracedProgram traced;
  {
    Trace trace("remat");
    const std::vector<Array> results = function();
    traced = {trace.finish(results), trace.captures()};
  }
  const std::vector<Array> captures = traced.captures;
  return emit_nested(
      transforms::remat_p(),
      ir::OpParams::of(transforms::RematParams{transforms::shared(std::move(traced.program)), false}),
      captures);
}

}  // namespace lockstep::internal
