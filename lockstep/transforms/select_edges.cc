// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/select_edges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/by_element.h"

namespace lockstep::transforms {
namespace {

constexpr std::size_t kMostOperands = 3;
constexpr std::int64_t kLargeToSmall = 8;  // the small operands are at most this part of the large one

ir::Var largest_operand(const ir::Program& program, const ir::Equation& equation) {
  return *std::ranges::max_element(equation.inputs, {},
                                   [&](ir::Var operand) { return program.aval(operand).num_elements(); });
}

bool has_small_edges(const ir::Program& program, const ir::Equation& equation, std::int64_t least_elements) {
  if (equation.primitive != &ir::concatenate_p() || equation.inputs.size() > kMostOperands) return false;
  const std::int64_t elements = program.aval(equation.outputs[0]).num_elements(),
                     large = program.aval(largest_operand(program, equation)).num_elements();
  return elements >= least_elements && kLargeToSmall * (elements - large) <= large;
}

/// Whether the large operand is in memory, or a slice of what is: not a value that elementwise operations
/// compute. XLA does not compute these again in each of many pads.
bool is_of_memory(const ir::Program& program, const std::vector<const ir::Equation*>& made_by,
                  const ir::Equation& equation) {
  const ir::Equation* made = made_by[static_cast<std::size_t>(largest_operand(program, equation))];
  while (made != nullptr && made->primitive == &ir::slice_p())
    made = made_by[static_cast<std::size_t>(made->inputs[0])];
  return made == nullptr || !is_by_element(program, *made);
}

/// Each operand, padded to the result's shape, below the index at which the next one begins.
ir::Value selection(const std::vector<ir::Value>& operands, const Aval& result, std::size_t dimension) {
  using namespace ir::lax;
  const std::int64_t size = result.shape[dimension];
  const ir::Value fill = ir::rules::zeros(operands[0], {result.dtype, {}});
  const ir::Value index = iota(operands[0], DType::kI32, {size}, 0);
  std::vector<std::int64_t> low(result.shape.size()), high(low), interior(low);
  ir::Value selected = operands[0];
  std::int64_t end = size;
  for (std::size_t i = operands.size(); i-- > 0;) {
    const std::int64_t begin = end - operands[i].aval().shape[dimension];
    low[dimension] = begin;
    high[dimension] = size - end;
    const ir::Value padded = pad(operands[i], fill, low, high, interior);
    if (i + 1 == operands.size()) {
      selected = padded;
    } else {
      const ir::Value below = lt(index, full(index, ir::Scalar::of(end), DType::kI32, {size}));
      selected = select(broadcast_in_dim(below, result.shape, {static_cast<std::int64_t>(dimension)}), padded,
                        selected);
    }
    end = begin;
  }
  return selected;
}

std::optional<ir::Program> with_selected_edges(const ir::Program& program, std::int64_t least_elements) {
  ir::Rewriter rewriter(program,
                        [=](const ir::Program& inner) { return with_selected_edges(inner, least_elements); });
  const ir::Uses uses(program);
  const std::vector<const ir::Equation*> made_by = ir::equations_of_variables(program);
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& equation = program.equations[e];
    if (!has_small_edges(program, equation, least_elements) || !is_of_memory(program, made_by, equation) ||
        !is_read_by_elements(program, uses, equation.outputs[0])) {
      rewriter.keep(e);
      continue;
    }
    const ir::EquationsAt at(rewriter.builder(), equation.site);
    std::vector<ir::Value> operands;
    for (ir::Var operand : equation.inputs) operands.push_back(rewriter[operand]);
    rewriter.replace(
        equation.outputs[0],
        selection(operands, program.aval(equation.outputs[0]),
                  static_cast<std::size_t>(equation.params.as<ir::ConcatenateParams>().dimension)));
  }
  return rewriter.finish();
}

}  // namespace

ir::Program select_edges(ir::Program program, const ir::AxisEnv& axes, std::int64_t least_elements) {
  const ir::AxisEnvScope scope(axes);
  return ir::rewritten(std::move(program),
                       [=](const ir::Program& given) { return with_selected_edges(given, least_elements); });
}

}  // namespace lockstep::transforms
