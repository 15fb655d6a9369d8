#include "lockstep/jit/grad.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::internal {

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
  // What is handed through is an output as any, with a derivative of its own around this one.
  const Program vjp = transforms::vjp(program, wrt, 1);

  Trace& trace = *Trace::current();
  std::vector<Value> values;
  for (const Array& array : inputs) values.push_back(trace.value_of(array));
  const Value one =
      trace.builder()
          .emit(full_p(), OpParams::of(FullParams{Scalar::of(1.0), loss.dtype, {}, loss.weak_type}), {})
          .front();
  values.push_back(loss.varying.empty() ? one : lax::pvary(one, loss.varying));
  std::vector<Value> results = transforms::inline_program(trace.builder(), vjp, values);
  std::vector<Array> outputs, grads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    (i < program.outputs.size() ? outputs : grads).push_back(trace.wrap(results[i]));
  }
  return {std::move(outputs), std::move(grads)};
}

}  // namespace lockstep::internal
