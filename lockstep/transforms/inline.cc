// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/inline.h"

#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

std::vector<Value> inline_program(Builder& builder, const Program& program, std::span<const Value> inputs) {
  Bindings env("inline_program", program, inputs);
  for (const Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    std::vector<Value> outputs = builder.emit(*equation.primitive, equation.params, env.all(equation.inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) env.set(equation.outputs[i], outputs[i]);
  }
  return env.all(program.outputs);
}

}  // namespace lockstep::transforms
