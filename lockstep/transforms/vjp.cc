// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/vjp.h"

#include <optional>

#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/linearize.h"
#include "lockstep/transforms/replay.h"
#include "lockstep/transforms/transpose.h"

namespace lockstep::transforms {

ir::Program vjp(const ir::Program& program, const std::vector<bool>& wrt, std::size_t of_outputs) {
  check_differentiable("vjp", program, wrt);
  const Linearized linearized = linearize(program, wrt, of_outputs);
  const ir::Program& both = linearized.program;
  const std::size_t num_inputs = program.inputs.size(), num_outputs = program.outputs.size();

  ir::Builder builder(program.name);
  std::vector<ir::Value> inputs;
  for (const Aval& aval : program.input_avals()) inputs.push_back(builder.input(aval));
  std::vector<std::optional<ir::Value>> seeds(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) {
    const Aval& aval = both.aval(both.outputs[i]);
    if (i < of_outputs && is_inexact(aval.dtype)) seeds[i] = builder.input(aval);
  }
  Transposition transposition(builder, both, linearized.linear_inputs, inputs);
  ir::Tangents cotangents(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) {
    if (linearized.has_tangent[i]) cotangents.push_back(seeds[i]);
  }
  const ir::Tangents pulled = transposition.run(cotangents);

  std::vector<ir::Value> outputs;
  for (std::size_t i = 0; i < num_outputs; ++i) outputs.push_back(transposition.value(both.outputs[i]));
  std::size_t next = 0;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (wrt[i]) outputs.push_back(made_explicit(builder, pulled[next++], Aval(inputs[i].aval())));
  }
  return eliminate_dead_code(builder.finish(outputs));
}

}  // namespace lockstep::transforms
