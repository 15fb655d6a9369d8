// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/name.h"

#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {

const Primitive& name_p() {
  static const Primitive p = {
      .name = "name",
      .shape = [](std::span<const Aval> inputs, const OpParams&) -> std::vector<Aval> { return {inputs[0]}; },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::elementwise(inputs, outputs); },
      .jvp = [](const JvpCall& c) -> Tangents { return {c.tangents[0]}; },
      .transpose = [](const TransposeCall& c) -> Tangents { return {*c.cotangents[0]}; },
      .batching = [](const BatchCall& call) { return rules::batch_elementwise(name_p(), call); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        return {out.operand(e, 0)};
      },
      .by_element = true,
      .linear = {.together = {{0}}, .moves = true},
  };
  return p;
}

}  // namespace lockstep::ir
