#include "lockstep/jit/derivatives.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/creation.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/split.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::internal {
namespace {

std::vector<Array> run_in_trace(const Program& program, const std::vector<Array>& inputs) {
  Trace& trace = *Trace::current();
  std::vector<Value> values;
  for (const Array& array : inputs) values.push_back(trace.value_of(array));
  std::vector<Array> results;
  for (const Value& value : transforms::inline_program(trace.builder(), program, values)) {
    results.push_back(trace.wrap(value));
  }
  return results;
}

}  // namespace

std::vector<Array> linearize_in_trace(const Program& program, const std::vector<Array>& inputs,
                                      std::size_t num_arguments, bool forwards, LinearProgram& linear) {
  std::vector<bool> wrt(inputs.size());
  std::vector<Aval> arguments, outputs = program.output_avals();
  for (std::size_t i = 0; i < num_arguments; ++i) {
    wrt[i] = is_inexact(inputs[i].dtype());
    arguments.push_back(program.aval(program.inputs[i]));
  }
  linear.given = forwards ? arguments : outputs;
  linear.result = forwards ? outputs : arguments;

  const Program derived = forwards ? transforms::jvp(program, wrt) : transforms::vjp(program, wrt);
  std::vector<bool> known(derived.inputs.size());
  std::fill_n(known.begin(), inputs.size(), true);
  transforms::Split parts = transforms::split(derived, known);

  const std::size_t n = program.outputs.size();
  const auto values_end = parts.output_known.begin() + static_cast<std::ptrdiff_t>(n);
  if (std::find(parts.output_known.begin(), values_end, false) != values_end) {
    // A loop that computes values and tangents in one: the values by themselves, and all of it for a tangent.
    std::vector<Array> results = run_in_trace(program, inputs);
    results.insert(results.end(), inputs.begin(), inputs.end());
    linear.program = derived;
    linear.program.outputs.erase(linear.program.outputs.begin(),
                                 linear.program.outputs.begin() + static_cast<std::ptrdiff_t>(n));
    linear.program = transforms::eliminate_dead_code(std::move(linear.program));
    linear.known_output.assign(linear.program.outputs.size(), false);
    return results;
  }
  std::vector<Array> before = run_in_trace(parts.before, inputs);
  // The outputs, then derivatives that are constant, then what is handed on.
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

std::vector<Array> apply_linear(const LinearProgram& linear, const std::vector<Array>& needed,
                                const std::vector<Array>& tangents) {
  const auto num_constants = std::ranges::count(linear.known_output, true);
  const auto constants = needed.end() - num_constants;
  std::vector<Array> inputs(needed.begin(), constants);
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (is_inexact(linear.given[i].dtype)) inputs.push_back(tangents[i]);
  }
  std::vector<Array> computed = run_in_trace(linear.program, inputs);
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

Array basis(const Array& x) {
  return reshape(eye(x.size(), x.size(), x.dtype()), joined({x.size()}, x.shape()));
}

void check_differentiable(std::string_view operation, const Array& x, const CallSite& site) {
  if (is_floating(x.dtype())) return;
  fail<TraceError>(
      "[{}] expected floating arrays to differentiate and to differentiate by, got {} (at {}); convert "
      "integers "
      "with astype",
      operation, to_string(x.aval()), site.to_string());
}

Shape joined(const Shape& first, const Shape& second) {
  Shape both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

}  // namespace lockstep::internal
