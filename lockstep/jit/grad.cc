#include "lockstep/jit/grad.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::internal {
namespace {

/// The program with all outputs but the first taken as constants.
Program first_output_only(const Program& program) {
  Builder builder(program.name);
  std::vector<Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  std::vector<Value> outputs = transforms::inline_program(builder, program, inputs);
  for (std::size_t i = 1; i < outputs.size(); ++i) outputs[i] = lax::stop_gradient(outputs[i]);
  return builder.finish(outputs);
}

}  // namespace

std::pair<std::vector<Array>, std::vector<Array>> differentiate(const Program& program,
                                                                const std::vector<Array>& inputs,
                                                                const std::vector<bool>& wrt,
                                                                const CallSite& site) {
  const Aval& loss = program.aval(program.outputs.front());
  if (!loss.shape.empty() || !is_floating(loss.dtype)) {
    fail<TraceError>(
        "[grad] expected a function whose value is a floating scalar, got {} (at {}); reduce it with sum or "
        "mean, "
        "and convert integers with astype",
        to_string(loss), site.to_string());
  }
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!wrt[i] || is_inexact(inputs[i].dtype())) continue;
    fail<TraceError>(
        "[grad] an argument holds {}, and an integer cannot be differentiated (at {}); convert it to a "
        "floating dtype with astype, or do not differentiate with respect to it",
        to_string(inputs[i].aval()), site.to_string());
  }
  Program vjp = transforms::vjp(first_output_only(program), wrt);

  Trace& trace = *Trace::current();
  std::vector<Value> values;
  for (const Array& array : inputs) values.push_back(trace.value_of(array));
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Aval& aval = program.aval(program.outputs[i]);
    if (!is_inexact(aval.dtype)) continue;
    OpParams params = OpParams::of(FullParams{Scalar::of(i == 0 ? 1.0 : 0.0), aval.dtype, aval.shape, false});
    Value cotangent = trace.builder().emit(full_p(), std::move(params), {}).front();
    values.push_back(aval.varying.empty() ? cotangent : lax::pvary(cotangent, aval.varying));
  }
  std::vector<Value> results = transforms::inline_program(trace.builder(), vjp, values);
  std::vector<Array> outputs, grads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    (i < program.outputs.size() ? outputs : grads).push_back(trace.wrap(results[i]));
  }
  return {std::move(outputs), std::move(grads)};
}

}  // namespace lockstep::internal
