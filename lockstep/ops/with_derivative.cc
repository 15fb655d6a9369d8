// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/linalg_internal.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::linalg::internal {

using lockstep::internal::TracedProgram;

std::vector<Array> with_derivative(
    const std::vector<Array>& operands,
    const std::function<std::vector<Array>(const std::vector<Array>&)>& function,
    const std::function<std::pair<std::vector<Array>, std::vector<Array>>(
        const std::vector<Array>& operands, const std::vector<Array>& tangents)>& rule) {
  const auto inputs = [&](Trace& trace) {
    std::vector<Array> tracers;
    for (const Array& operand : operands) {
      Aval aval = operand.aval();
      aval.weak_type = false;
      tracers.push_back(trace.input(aval));
    }
    return tracers;
  };
  TracedProgram program, by_rule;
  {
    Trace trace("function");
    const std::vector<Array> results = function(inputs(trace));
    program = {trace.finish(results), trace.captures()};
  }
  {
    Trace trace("rule");
    const std::vector<Array> primals = inputs(trace), tangents = inputs(trace);
    auto [results, of_results] = rule(primals, tangents);
    results.insert(results.end(), of_results.begin(), of_results.end());
    by_rule = {trace.finish(results), trace.captures()};
  }
  std::vector<Array> all = lockstep::internal::merge_captures({&program, &by_rule});
  const auto num_consts = static_cast<std::int64_t>(all.size());
  for (const Array& operand : operands)
    all.push_back(ir::lax::convert_element_type(operand, operand.aval().dtype));
  return lockstep::internal::emit_nested(transforms::custom_jvp_p(),
                                         ir::OpParams::of(transforms::CustomJvpParams{
                                             transforms::shared(std::move(program.program)),
                                             transforms::shared(std::move(by_rule.program)), num_consts}),
                                         all);
}

}  // namespace lockstep::linalg::internal
