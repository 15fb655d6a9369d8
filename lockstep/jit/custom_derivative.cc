// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/custom_derivative.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "lockstep/base/fail.h"
#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/name.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/nested_primitives.h"
#include "lockstep/transforms/remat_policy.h"

namespace lockstep::internal {
namespace {

std::string type_text(const Aval& aval) { return to_string(Aval{aval.dtype, aval.shape}); }

void check_structure(const std::string& what, const TreeOutline& expected, const TreeOutline& given,
                     const CallSite& site) {
  if (expected.paths == given.paths && expected.structure == given.structure) return;
  fail<TraceError>("[{}] expected {} arrays{} from the rule, got {}{} (at {})", what, expected.paths.size(),
                   expected.structure.empty() ? "" : " and " + expected.structure, given.paths.size(),
                   given.structure.empty() ? "" : " and " + given.structure, site.to_string());
}

std::vector<Array> emit_remat(TracedProgram program, const RematPolicy& policy,
                              const std::vector<Array>& arguments) {
  const std::vector<Array> captures = merge_captures({&program});
  transforms::RematParams params{transforms::shared(std::move(program.program)), false};
  if (policy.name != RematPolicy().name) params.policy = policy.name;
  if (!policy.names.empty()) params.names = policy.names;
  return emit_nested(transforms::remat_p(), ir::OpParams::of(std::move(params)), joined(captures, arguments));
}

std::vector<Array> emit_custom_jvp(TracedProgram function, TracedProgram rule,
                                   std::optional<std::string> no_reverse,
                                   const std::vector<Array>& arguments) {
  const std::vector<Array> captures = merge_captures({&function, &rule});
  return emit_nested(
      transforms::custom_jvp_p(),
      ir::OpParams::of(transforms::CustomJvpParams{
          transforms::shared(std::move(function.program)), transforms::shared(std::move(rule.program)),
          static_cast<std::int64_t>(captures.size()), std::move(no_reverse)}),
      joined(captures, arguments));
}

std::vector<Array> emit_custom_vjp(TracedProgram function, TracedProgram forward, TracedProgram backward,
                                   std::optional<TracedProgram> jvp_rule,
                                   const std::vector<Array>& arguments) {
  std::vector<TracedProgram*> all = {&function, &forward, &backward};
  if (jvp_rule) all.push_back(&*jvp_rule);
  const std::vector<Array> captures = merge_captures(all);
  transforms::CustomVjpParams params{
      transforms::shared(std::move(function.program)), transforms::shared(std::move(forward.program)),
      transforms::shared(std::move(backward.program)), static_cast<std::int64_t>(captures.size())};
  if (jvp_rule) params.jvp = transforms::shared(std::move(jvp_rule->program));
  return emit_nested(transforms::custom_vjp_p(), ir::OpParams::of(std::move(params)),
                     joined(captures, arguments));
}

Array zeros_of(const Aval& aval) {
  return ir::lax::full(Array(), is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0), aval.dtype,
                       aval.shape);
}

/// Throws TraceError unless a rule's result has the structure, shapes and dtypes of the function's result.
void check_same_types(const std::string& what, const TreeOutline& expected, const std::vector<Aval>& avals,
                      const TreeOutline& given, const std::vector<Aval>& given_avals, const CallSite& site) {
  check_structure(what, expected, given, site);
  for (std::size_t i = 0; i < avals.size(); ++i) {
    if (avals[i].dtype == given_avals[i].dtype && avals[i].shape == given_avals[i].shape) continue;
    fail<TraceError>("[{}] {} is {} from the function and {} from the rule (at {}); give the same", what,
                     expected.paths[i], type_text(avals[i]), type_text(given_avals[i]), site.to_string());
  }
}

/// The arrays of `tangents` for the inexact arrays of `values`, each converted to that one's type. If
/// structure, shape or dtype differ, throws a TraceError that shows both and the path; `what` names the rule.
std::vector<Array> checked_tangents(const std::string& what, const TreeOutline& expected,
                                    const std::vector<Array>& values, const TreeOutline& given,
                                    const std::vector<Array>& tangents, const CallSite& site) {
  check_structure(what, expected, given, site);
  std::vector<Array> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Aval& aval = values[i].aval();
    if (!is_inexact(aval.dtype)) continue;
    if (tangents[i].dtype() != aval.dtype || tangents[i].shape() != aval.shape) {
      fail<TraceError>(
          "[{}] {} is {}, but the rule gives {} for its derivative (at {}); give the same shape and dtype",
          what, expected.paths[i], type_text(aval), type_text(tangents[i].aval()), site.to_string());
    }
    out.push_back(tangents[i]);
  }
  return out;
}

std::vector<tree::TreeRef> elements_of(tree::TreeRef tuple) {
  std::vector<tree::TreeRef> all;
  for (std::size_t i = 0; i < tuple.num_elements(); ++i) all.push_back(tuple.element(i));
  return all;
}

std::vector<tree::AnyTree> copies_of(const std::vector<tree::TreeRef>& trees) {
  std::vector<tree::AnyTree> all;
  for (const tree::TreeRef& tree : trees) all.push_back(tree::AnyTree::copy_of(tree));
  return all;
}

/// The function's program, which is never differentiated, because its rule defines the derivative.
TracedFunction trace_plain(const char* name, const TreeFunction& function,
                           const std::vector<tree::TreeRef>& arguments) {
  DerivativeDepth none(0);
  return trace_function(name, function, arguments);
}

/// The rule for a forward derivative: the program of the results, then of the tangents of the inexact ones.
TracedProgram trace_jvp_rule(const TracedFunction& plain, const TreeFunction& rule, const CallSite& site,
                             tree::TreeRef tuple) {
  DerivativeDepth within(DerivativeDepth::current() - 1);
  Trace trace("custom_jvp_rule");
  std::vector<tree::AnyTree> given;
  given.push_back(tree::AnyTree::copy_of(tuple));
  given.back()->change_leaves([&](Array& array) { array = trace.input(array.aval()); });
  // A new tracer for each inexact array, as its tangent; the tangent of an integer is zeros, which are not
  // used.
  given.push_back(tree::AnyTree::copy_of(given.front().ref()));
  given.back()->change_leaves([&](Array& array) {
    array = is_inexact(array.dtype()) ? trace.input(array.aval()) : zeros_of(array.aval());
  });
  const tree::AnyTree both = rule(given);
  const tree::TreeRef value = both->element(0), tangent = both->element(1);
  const TreeOutline expected = outline(plain.result.ref(), "result");
  std::vector<Array> values = value.leaves();
  std::vector<Aval> value_avals;
  for (const Array& each : values) value_avals.push_back(each.aval());
  check_same_types("custom_jvp", expected, plain.traced.program.output_avals(), outline(value, "result"),
                   value_avals, site);
  for (Array& each :
       checked_tangents("custom_jvp", expected, values, outline(tangent, "result"), tangent.leaves(), site))
    values.push_back(std::move(each));
  return {trace.finish(values), trace.captures()};
}

tree::AnyTree custom_jvp_in_trace(const TreeFunction& function, const TreeFunction& rule,
                                  const CallSite& site, tree::TreeRef tuple,
                                  std::optional<std::string> no_reverse) {
  TracedFunction plain = trace_plain("custom_jvp", function, elements_of(tuple));
  TracedProgram with_rule = trace_jvp_rule(plain, rule, site, tuple);
  CallSiteScope scope(site);
  plain.result->replace_leaves(
      emit_custom_jvp(std::move(plain.traced), std::move(with_rule), std::move(no_reverse), tuple.leaves()));
  return std::move(plain.result);
}

tree::AnyTree custom_vjp_in_trace(const TreeFunction& function, const TreeFunction& forward,
                                  const TreeFunction& backward, const TreeFunction* jvp_rule,
                                  const CallSite& site, tree::TreeRef tuple) {
  TracedFunction plain = trace_plain("custom_vjp", function, elements_of(tuple));
  std::optional<TracedProgram> with_rule;
  if (jvp_rule != nullptr) with_rule = trace_jvp_rule(plain, *jvp_rule, site, tuple);
  DerivativeDepth within(DerivativeDepth::current() - 1);
  TracedFunction first = trace_function("custom_vjp_forward", forward, elements_of(tuple));
  const std::vector<Aval> avals = plain.traced.program.output_avals(),
                          first_avals = first.traced.program.output_avals();
  const tree::TreeRef value = first.result->element(0);
  check_same_types(
      "custom_vjp, forward", outline(plain.result.ref(), "result"), avals, outline(value, "result"),
      {first_avals.begin(), first_avals.begin() + static_cast<std::ptrdiff_t>(value.leaves().size())}, site);
  TracedProgram second;
  {
    Trace trace("custom_vjp_backward");
    std::vector<tree::AnyTree> given;
    std::size_t next = avals.size();
    given.push_back(tree::AnyTree::copy_of(first.result->element(1)));
    given.back()->change_leaves([&](Array& array) { array = trace.input(first_avals[next++]); });
    given.push_back(tree::AnyTree::copy_of(plain.result.ref()));
    next = 0;
    given.back()->change_leaves([&](Array& array) {
      const Aval& aval = avals[next++];
      array = is_inexact(aval.dtype) ? trace.input(aval) : zeros_of(aval);
    });
    const tree::AnyTree gradients = backward(given);
    second.program =
        trace.finish(checked_tangents("custom_vjp, backward", outline(tuple, "argument"), tuple.leaves(),
                                      outline(gradients.ref(), "argument"), gradients->leaves(), site));
    second.captures = trace.captures();
  }
  CallSiteScope scope(site);
  plain.result->replace_leaves(emit_custom_vjp(std::move(plain.traced), std::move(first.traced),
                                               std::move(second), std::move(with_rule), tuple.leaves()));
  return std::move(plain.result);
}

}  // namespace

tree::AnyTree remat_of(const TreeFunction& function, const RematPolicy& policy, const CallSite& site,
                       std::span<TreeArgument> arguments) {
  transforms::check_policy(policy.name);
  return run_trees_in_trace(
      "remat", site, with_numbers_as_arrays(arguments), [&](const std::vector<tree::TreeRef>& given) {
        TracedFunction call = trace_function("remat", function, given);
        CallSiteScope scope(site);
        call.result->replace_leaves(emit_remat(std::move(call.traced), policy, all_leaves(given)));
        return std::move(call.result);
      });
}

void change_to_named(tree::TreeRef tree, const std::string& name, const CallSite& site) {
  CallSiteScope scope(site);
  tree.change_leaves([&](Array& array) {
    array = run_operation("checkpoint_name", name, {&array, 1}, [&](std::span<const Array> t) {
              return std::vector<Array>{ir::lax::name(t[0], name)};
            }).front();
  });
}

// Where nothing is differentiated the rules are not looked at.
tree::AnyTree custom_jvp_of(const TreeFunction& function, const TreeFunction& rule, const CallSite& site,
                            tree::TreeRef arguments, std::optional<std::string> no_reverse) {
  return run_trees_in_trace("custom_jvp", site, {&arguments, 1},
                            [&](const std::vector<tree::TreeRef>& given) {
                              if (DerivativeDepth::current() == 0)
                                return function(copies_of(elements_of(given[0])));
                              return custom_jvp_in_trace(function, rule, site, given[0], no_reverse);
                            });
}

tree::AnyTree custom_vjp_of(const TreeFunction& function, const TreeFunction& forward,
                            const TreeFunction& backward, const CallSite& site, tree::TreeRef arguments,
                            const TreeFunction* jvp_rule) {
  return run_trees_in_trace(
      "custom_vjp", site, {&arguments, 1}, [&](const std::vector<tree::TreeRef>& given) {
        if (DerivativeDepth::current() == 0) return function(copies_of(elements_of(given[0])));
        return custom_vjp_in_trace(function, forward, backward, jvp_rule, site, given[0]);
      });
}

}  // namespace lockstep::internal
