// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/debug.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {

void check_debug_format(const std::string& format, std::size_t operands) {
  std::size_t places = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if ((format[i] == '{' || format[i] == '}') && i + 1 < format.size() && format[i + 1] == format[i]) {
      ++i;
    } else if (format[i] == '{' && i + 1 < format.size() && format[i + 1] == '}') {
      ++places;
      ++i;
    } else if (format[i] == '{' || format[i] == '}') {
      fail<ShapeError>(
          "expected a format with {{}} for each array, got \"{}\"; write {{{{ and }}}} for braces", format);
    }
  }
  if (places != operands) {
    fail<ShapeError>("the format \"{}\" has {} places {{}} for {} arrays", format, places, operands);
  }
}

const Primitive& debug_p() {
  static const Primitive p = {
      .name = "debug",
      .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
        const auto& p = params.as<DebugParams>();
        if (!p.check) check_debug_format(p.text, inputs.size());
        return {};
      },
      .sharding = [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                     const OpParams&) { return ShardingRule::replicated(inputs, outputs); },
      .jvp = zero_tangents,
      .transpose = not_linear,
      .batching = [](const BatchCall& call) -> std::vector<Value> {
        for (std::int64_t i = 0; i < call.size; ++i) {
          std::vector<Value> operands;
          for (std::size_t k = 0; k < call.inputs.size(); ++k)
            operands.push_back(call.batched[k] ? rules::example(call.inputs[k], i) : call.inputs[k]);
          call.builder.emit(debug_p(), call.params, operands);
        }
        return {};
      },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const auto& p = e.params.as<DebugParams>();
        std::vector<std::string> operands, types;
        for (std::size_t i = 0; i < e.inputs.size(); ++i) {
          operands.push_back(out.operand(e, i));
          types.push_back(out.operand_type(e, i));
        }
        out.host_call(
            kDebugTarget, operands, types, {},
            fmt::format("text = {}, check = {} : i64, once = {} : i64, site = {}", mlir_string(p.text),
                        p.check ? 1 : 0, p.once ? 1 : 0, mlir_string(e.site.to_string())));
        return {};
      },
      .sets_varying = true,
      .has_effect = true,
  };
  return p;
}

}  // namespace lockstep::ir
