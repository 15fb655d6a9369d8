// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/derivatives.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/jit/derivative_depth.h"
#include "lockstep/jit/jit_cache.h"
#include "lockstep/jit/pmap_axis.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/split.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::internal {

/// The derivative of a program at known inputs: what to run for given tangents (cotangents).
struct LinearProgram {
  ir::Program program;             ///< inputs: what was computed before, then the tangents that count
  std::vector<bool> known_output;  ///< of each derivative: whether it depends on no tangent
  std::vector<Aval> given;         ///< of each tangent (cotangent) of the caller's, the aval it must have
  std::vector<Aval> result;        ///< of each derivative that a call gives back, its aval
  bool forwards = true;
};
namespace {

std::vector<Array> run_program(const ir::Program& program, const std::vector<Array>& inputs) {
  Trace& trace = *Trace::current();
  std::vector<ir::Value> values;
  for (const Array& array : inputs) values.push_back(trace.value_of(array));
  std::vector<Array> results;
  for (const ir::Value& value : transforms::inline_program(trace.builder(), program, values)) {
    results.push_back(trace.wrap(value));
  }
  return results;
}

/// The program's outputs, then the values that `linear` needs; sets `linear`. In forward mode its inputs are
/// the inputs' tangents and its results those of the outputs; in reverse mode the reverse. `inputs` are
/// arrays of the current trace, including the program's captures; the first `num_arguments` are
/// differentiated if they are inexact.
std::vector<Array> linearize_in_trace(const ir::Program& program, const std::vector<Array>& inputs,
                                      std::size_t num_arguments, bool forwards, LinearProgram& linear) {
  std::vector<bool> wrt(inputs.size());
  std::vector<Aval> arguments, outputs = program.output_avals();
  for (std::size_t i = 0; i < num_arguments; ++i) {
    wrt[i] = is_inexact(inputs[i].dtype());
    arguments.push_back(program.aval(program.inputs[i]));
  }
  linear.forwards = forwards;
  linear.given = forwards ? arguments : outputs;
  linear.result = forwards ? outputs : arguments;

  const ir::Program derived = forwards ? transforms::jvp(program, wrt) : transforms::vjp(program, wrt);
  std::vector<bool> known(derived.inputs.size());
  std::fill_n(known.begin(), inputs.size(), true);
  transforms::Split parts = transforms::split(derived, known);

  const std::size_t n = program.outputs.size();
  const auto values_end = parts.output_known.begin() + static_cast<std::ptrdiff_t>(n);
  if (std::find(parts.output_known.begin(), values_end, false) != values_end) {
    // If a loop computes values and tangents together: the values are computed alone, and everything again
    // for a tangent.
    std::vector<Array> results = run_program(program, inputs);
    results.insert(results.end(), inputs.begin(), inputs.end());
    linear.program = derived;
    linear.program.outputs.erase(linear.program.outputs.begin(),
                                 linear.program.outputs.begin() + static_cast<std::ptrdiff_t>(n));
    linear.program = transforms::eliminate_dead_code(std::move(linear.program));
    linear.known_output.assign(linear.program.outputs.size(), false);
    return results;
  }
  std::vector<Array> before = run_program(parts.before, inputs);
  // The outputs, then derivatives that are constant, then values that are passed on.
  std::vector<Array> results(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(n)), constants;
  std::size_t next = n;
  for (std::size_t i = n; i < parts.output_known.size(); ++i) {
    if (parts.output_known[i]) constants.push_back(before[next++]);
    linear.known_output.push_back(parts.output_known[i]);
  }
  results.insert(results.end(), before.begin() + static_cast<std::ptrdiff_t>(next), before.end());
  results.insert(results.end(), constants.begin(), constants.end());
  linear.program = std::move(parts.after);
  return results;
}

/// Throws ShapeError or DTypeError if a tangent has the wrong type; `operation` and `what` are for the
/// message.
void check_tangents(const LinearProgram& linear, const std::vector<Array>& tangents,
                    std::string_view operation, std::string_view what, const CallSite& site) {
  if (tangents.size() != linear.given.size()) {
    fail<ShapeError>("[{}] expected {} {}s, one for each array, got {} (at {})", operation,
                     linear.given.size(), what, tangents.size(), site.to_string());
  }
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    const Aval &expected = linear.given[i], &got = tangents[i].aval();
    if (!is_inexact(expected.dtype)) continue;
    if (got.shape != expected.shape) {
      fail<ShapeError>("[{}] expected a {} of {}, got {} (at {})", operation, what, to_string(expected),
                       to_string(got), site.to_string());
    }
    if (got.dtype != expected.dtype) {
      fail<DTypeError>("[{}] expected a {} of {}, got {} (at {}); convert it with astype", operation, what,
                       to_string(expected), to_string(got), site.to_string());
    }
  }
}

/// The derivatives for these tangents.
std::vector<Array> apply_linear(const LinearProgram& linear, const std::vector<Array>& needed,
                                const std::vector<Array>& tangents) {
  const auto num_constants = std::ranges::count(linear.known_output, true);
  const auto constants = needed.end() - num_constants;
  std::vector<Array> inputs(needed.begin(), constants);
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (!is_inexact(linear.given[i].dtype)) continue;
    inputs.push_back(linear.forwards ? tangents[i] : cotangent_of_copies(tangents[i], linear.given[i]));
  }
  std::vector<Array> computed = run_program(linear.program, inputs);
  auto next_computed = computed.begin();
  auto next_constant = constants;
  std::size_t place = 0;
  std::vector<Array> results;
  for (const Aval& aval : linear.result) {
    if (!is_inexact(aval.dtype)) {
      results.push_back(zeros(aval.shape, aval.dtype));
    } else if (linear.known_output[place++]) {
      results.push_back(*next_constant++);
    } else {
      results.push_back(*next_computed++);
    }
  }
  return results;
}

/// The shape of the first, then of the second.
Shape joined(const Shape& first, const Shape& second) {
  Shape both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

/// Unit vectors of an array's elements: [size, ...shape], one 1 each.
Array basis(const Array& x) {
  return reshape(eye(x.size(), x.size(), x.dtype()), joined({x.size()}, x.shape()));
}

/// Throws TraceError if one is not floating.
void check_differentiable(std::string_view operation, const std::vector<Array>& arrays,
                          const CallSite& site) {
  for (const Array& x : arrays) {
    if (is_floating(x.dtype())) continue;
    fail<TraceError>(
        "[{}] expected floating arrays to differentiate, and to differentiate with respect to, got {} (at "
        "{}); convert integers with astype",
        operation, to_string(x.aval()), site.to_string());
  }
}

/// The derivatives for each unit vector of array i, the others being zero, along a new axis.
std::vector<Array> along_basis(const LinearCall& derivative, const std::vector<Array>& arrays, std::size_t i,
                               int out_axes, const CallSite& site) {
  auto along = [&](const Array& direction) {
    std::vector<Array> all;
    for (const Array& array : arrays) all.push_back(zeros_like(array));
    all[i] = direction;
    return derivative(all, site);
  };
  return vmap(along, {.out_axes = out_axes})(basis(arrays[i]));
}

/// body(arguments) in the trace in force, or as a program of its own.
Jacobian jacobian_in_trace(std::string_view operation, const CallSite& site,
                           std::span<const tree::TreeRef> arguments,
                           const std::function<Jacobian(const std::vector<tree::TreeRef>&)>& body) {
  Jacobian all;
  const std::vector<Array> outputs =
      run_in_trace(operation, site, all_leaves(arguments), [&](const std::vector<Array>& given) {
        all = body(TreeCopies(arguments, given).refs);
        std::vector<Array> flat;
        for (const std::vector<Array>& row : all.by) flat.insert(flat.end(), row.begin(), row.end());
        return flat;
      });
  auto next = outputs.begin();
  for (std::vector<Array>& row : all.by)
    for (Array& array : row) array = *next++;
  return all;
}

}  // namespace

LinearCall::LinearCall(std::shared_ptr<const LinearProgram> linear, std::vector<Array> needed,
                       std::string_view operation, std::string_view what, const CallSite& site)
    : operation_(operation),
      what_(what),
      linear_(std::move(linear)),
      needed_(std::move(needed)),
      jitted_(std::make_shared<JitCache>(JitOptions{.name = std::string(operation)}, site)) {}

std::vector<Array> LinearCall::operator()(const std::vector<Array>& given, const CallSite& where) const {
  using Arrays = std::vector<Array>;
  check_tangents(*linear_, given, operation_, what_, where);
  if (Trace::current() != nullptr) return apply_linear(*linear_, needed_, given);
  auto body = [&](const Arrays& needed, const Arrays& tangents) {
    return apply_linear(*linear_, needed, tangents);
  };
  constexpr std::type_identity<std::tuple<Arrays, Arrays>> types;
  auto arguments = tree_arguments(types, needed_, given);
  return jitted_->call_traced(tree_function<Arrays>(body, types), arguments).take<Arrays>();
}

Linearized linearized(const TreeFunction& function, bool forwards, std::string_view operation,
                      const CallSite& site, std::span<const tree::TreeRef> arguments,
                      std::optional<std::size_t> argnum) {
  auto linear = std::make_shared<LinearProgram>();
  tree::AnyTree result;
  const std::vector<Array> outputs =
      run_in_trace(operation, site, all_leaves(arguments), [&](std::vector<Array> given) {
        for (Array& array : given)
          if (!forwards) array = own_copy(array);
        // The inputs of the traced function: the differentiated ones, then those from outside.
        std::vector<Array> inputs;
        std::span<const Array> rest = given;
        std::vector<bool> by;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
          const std::size_t count = arguments[i].leaves().size();
          if (!argnum || *argnum == i)
            inputs.insert(inputs.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
          by.resize(by.size() + count, !argnum || *argnum == i);
          rest = rest.subspan(count);
        }
        const std::size_t num_arguments = inputs.size();
        TracedFunction call;
        {
          DerivativeDepth once_more(DerivativeDepth::current() + 1);
          call =
              trace_function(operation, function, arguments, [&](Trace& trace, const Array&, std::size_t k) {
                return by[k] ? trace.input(given[k].aval()) : given[k];
              });
        }
        const ir::Program& program = call.traced.program;
        inputs.insert(inputs.end(), call.traced.captures.begin(), call.traced.captures.end());
        result = std::move(call.result);
        return linearize_in_trace(program, inputs, num_arguments, forwards, *linear);
      });
  const std::span<const Array> needed = result->replace_leaves(outputs);
  return {std::move(result), LinearCall(std::move(linear), {needed.begin(), needed.end()}, operation,
                                        forwards ? "tangent" : "cotangent", site)};
}

JvpResult jvp_of(const TreeFunction& function, std::span<const tree::TreeRef> primals,
                 const std::vector<Array>& tangents, const CallSite& site) {
  std::vector<Array> inputs = all_leaves(primals);
  inputs.insert(inputs.end(), tangents.begin(), tangents.end());
  JvpResult all;
  const std::vector<Array> outputs = run_in_trace("jvp", site, inputs, [&](const std::vector<Array>& given) {
    const TreeCopies copies(primals, given);
    Linearized linear = linearized(function, /*forwards=*/true, "jvp", site, copies.refs);
    std::vector<Array> results = linear.result->leaves();
    for (Array& tangent : linear.derivative({copies.rest.begin(), copies.rest.end()}, site))
      results.push_back(std::move(tangent));
    all.result = std::move(linear.result);
    return results;
  });
  const std::span<const Array> rest = all.result->replace_leaves(outputs);
  all.tangents.assign(rest.begin(), rest.end());
  return all;
}

Jacobian jacfwd_of(const TreeFunction& function, std::span<const tree::TreeRef> arguments, std::size_t argnum,
                   const CallSite& site) {
  return jacobian_in_trace("jacfwd", site, arguments, [&](const std::vector<tree::TreeRef>& given) {
    const std::vector<Array> inputs = given[argnum].leaves();
    check_differentiable("jacfwd", inputs, site);
    Jacobian all;
    auto [result, push] = linearized(function, /*forwards=*/true, "jacfwd", site, given, argnum);
    const std::vector<Array> outputs = result->leaves();
    all.by.resize(outputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<Array> pushed = along_basis(push, inputs, i, /*out_axes=*/-1, site);
      for (std::size_t o = 0; o < outputs.size(); ++o)
        all.by[o].push_back(reshape(pushed[o], joined(outputs[o].shape(), inputs[i].shape())));
    }
    all.result = std::move(result);
    return all;
  });
}

Jacobian jacrev_of(const TreeFunction& function, std::span<const tree::TreeRef> arguments, std::size_t argnum,
                   const CallSite& site) {
  return jacobian_in_trace("jacrev", site, arguments, [&](const std::vector<tree::TreeRef>& given) {
    const std::vector<Array> inputs = given[argnum].leaves();
    check_differentiable("jacrev", inputs, site);
    Jacobian all;
    auto [result, pull] = linearized(function, /*forwards=*/false, "jacrev", site, given, argnum);
    const std::vector<Array> outputs = result->leaves();
    check_differentiable("jacrev", outputs, site);
    all.by.resize(outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      std::vector<Array> pulled = along_basis(pull, outputs, o, /*out_axes=*/0, site);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        all.by[o].push_back(reshape(pulled[i], joined(outputs[o].shape(), inputs[i].shape())));
    }
    all.result = std::move(result);
    return all;
  });
}

}  // namespace lockstep::internal
