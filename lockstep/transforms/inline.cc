// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/inline.h"

#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

std::vector<ir::Value> inline_program(ir::Builder& builder, const ir::Program& program,
                                      std::span<const ir::Value> inputs) {
  Bindings env("inline_program", program, inputs);
  for (const ir::Equation& equation : program.equations) {
    CallSiteScope site(equation.site);
    std::vector<ir::Value> outputs =
        builder.emit(*equation.primitive, equation.params, env.all(equation.inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) env.set(equation.outputs[i], outputs[i]);
  }
  return env.all(program.outputs);
}

}  // namespace lockstep::transforms
