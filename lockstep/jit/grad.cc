// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/grad.h"

#include <algorithm>

#include "lockstep/array/exact_number.h"
#include "lockstep/base/fail.h"
#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/pmap_axis.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::internal {
namespace {

/// The outputs of the program and the cotangents of the inputs in `wrt`, for a cotangent of 1 of its first
/// output. `inputs` are arrays of the current trace, including the program's captures. Throws TraceError if
/// the first output is not a floating scalar.
std::pair<std::vector<Array>, std::vector<Array>> differentiate(const ir::Program& program,
                                                                const std::vector<Array>& inputs,
                                                                const std::vector<bool>& wrt,
                                                                const CallSite& site) {
  const Aval& loss = program.aval(program.outputs.front());
  if (!loss.shape.empty() || !is_floating(loss.dtype)) {
    fail<TraceError>(
        "[grad] expected a function whose value is a floating scalar, got {} (at {}); reduce it with sum or "
        "mean, and convert integers with astype",
        to_string(loss), site.to_string());
  }
  // Outputs that are handed through are like any other, with derivatives of their own around this one.
  const ir::Program vjp = transforms::vjp(program, wrt, 1);

  Trace& trace = *Trace::current();
  std::vector<ir::Value> values;
  for (const Array& array : inputs) values.push_back(trace.value_of(array));
  const ir::Value one =
      trace.builder()
          .emit(ir::full_p(),
                ir::OpParams::of(ir::FullParams{ir::Scalar::of(1.0), loss.dtype, {}, loss.weak_type}), {})
          .front();
  values.push_back(trace.value_of(cotangent_of_copies(trace.wrap(one), loss)));
  std::vector<ir::Value> results = transforms::inline_program(trace.builder(), vjp, values);
  std::vector<Array> outputs, grads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    (i < program.outputs.size() ? outputs : grads).push_back(trace.wrap(results[i]));
  }
  return {std::move(outputs), std::move(grads)};
}

/// Throws TraceError if an array of argument i is not floating, with its path.
void check_differentiable(tree::TreeRef argument, std::size_t i, const CallSite& site) {
  std::size_t k = 0;
  argument.for_each_leaf([&](const Array& array) {
    const std::size_t here = k++;
    if (is_inexact(array.dtype())) return;
    fail<TraceError>(
        "[grad] {} is {}, and an integer cannot be differentiated (at {}); convert it to a floating dtype "
        "with astype, or keep it in an argument that is not differentiated",
        outline(argument, fmt::format("argument {}", i)).paths[here], to_string(array.aval()),
        site.to_string());
  });
}

}  // namespace

ValueAndGrads value_and_grad_of(const TreeFunction& function, std::span<const std::size_t> argnums,
                                const CallSite& site, std::span<const tree::TreeRef> arguments) {
  ValueAndGrads all;
  std::vector<bool> wrt;
  std::vector<std::size_t> argument_of;
  for (std::size_t i : argnums) check_differentiable(arguments[i], i, site);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t count = arguments[i].leaves().size();
    wrt.resize(wrt.size() + count, std::ranges::find(argnums, i) != argnums.end());
    argument_of.resize(argument_of.size() + count, i);
  }
  const std::vector<Array> outputs =
      run_in_trace("value_and_grad", site, all_leaves(arguments), [&](std::vector<Array> given) {
        for (std::size_t i = 0; i < given.size(); ++i)
          if (wrt[i]) given[i] = own_copy(given[i]);
        TracedFunction call;
        {
          DerivativeDepth once_more(DerivativeDepth::current() + 1);
          call = trace_function("grad", function, TreeCopies(arguments, given).refs,
                                [&](Trace& trace, const Array& array, std::size_t k) {
                                  Array input = trace.input(array.aval());
                                  // A number is taken from outside, where its double is known.
                                  return !wrt[k] && may_be_number(array.aval()) ? array : input;
                                });
        }
        std::vector<Array> inputs = given;
        inputs.insert(inputs.end(), call.traced.captures.begin(), call.traced.captures.end());
        std::vector<bool> by = wrt;
        by.resize(inputs.size());
        auto [values, grads] = differentiate(call.traced.program, inputs, by, site);
        values.insert(values.end(), grads.begin(), grads.end());
        all.value = std::move(call.result);
        return values;
      });
  // The gradients are in the order of the arguments.
  std::span<const Array> grads = all.value->replace_leaves(outputs);
  all.grads.resize(arguments.size());
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    if (!wrt[k]) continue;
    all.grads[argument_of[k]].push_back(grads.front());
    grads = grads.subspan(1);
  }
  return all;
}

}  // namespace lockstep::internal
