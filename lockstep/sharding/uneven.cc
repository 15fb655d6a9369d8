// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/uneven.h"

#include <algorithm>

#include "lockstep/base/all_are.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::sharding {
namespace {

using Integers = std::vector<std::int64_t>;

/// x with these numbers of elements added before and after each dimension; negative numbers remove elements.
/// Fills with zeros unless `fill` is set.
ir::Value padded(const ir::Value& x, Integers low, Integers high,
                 const std::optional<ir::Value>& fill = std::nullopt, Integers interior = {}) {
  interior.resize(low.size());
  const bool same = all_are(low, 0) && all_are(high, 0) && all_are(interior, 0);
  return same ? x
              : ir::lax::pad(x, fill ? *fill : ir::rules::zeros(x, {x.aval().dtype, {}}), std::move(low),
                             std::move(high), std::move(interior));
}

/// Bools of this shape: which positions of a dimension come before `end`.
ir::Value before(const ir::Value& like, const Shape& shape, std::size_t dimension, std::int64_t end) {
  const DType dtype = place_dtype(shape[dimension]);
  const ir::Value places = ir::lax::iota(like, dtype, {shape[dimension]}, 0);
  const ir::Value is_before = ir::lax::lt(places, ir::lax::full_like(places, static_cast<double>(end)));
  return ir::lax::broadcast_in_dim(is_before, shape, {static_cast<std::int64_t>(dimension)});
}

ir::Value resized_slice(const ir::SliceParams& s, const PaddedOperand& x, const Shape& shape,
                        const Shape& to) {
  const Shape& stored = x.value.aval().shape;
  Integers low(shape.size()), high = low, start = s.start_indices, limit = s.limit_indices;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (to[d] == shape[d] && stored[d] == x.shape[d]) continue;
    low[d] = -s.start_indices[d];
    high[d] = s.start_indices[d] + to[d] * s.strides[d] - stored[d];
    start[d] = 0;
    limit[d] = to[d] * s.strides[d];
  }
  const ir::Value wide = padded(x.value, low, high);
  return wide.aval().shape == to ? wide : ir::lax::slice(wide, start, limit, s.strides);
}

ir::Value resized_pad(const ir::PadParams& p, const PaddedOperand& x, const ir::Value& fill,
                      const Shape& to) {
  ir::Value filled = x.value;
  const Shape stored = x.value.aval().shape;
  Integers high(stored.size());
  for (std::size_t d = 0; d < stored.size(); ++d) {
    if (stored[d] != x.shape[d])
      filled = ir::lax::select(before(filled, stored, d, x.shape[d]), filled,
                               ir::lax::broadcast_in_dim(fill, stored, {}));
    high[d] = to[d] - p.low[d] - stored[d] - std::max<std::int64_t>(stored[d] - 1, 0) * p.interior[d];
  }
  return padded(filled, p.low, high, fill, p.interior);
}

ir::Value resized_concatenate(std::size_t along, std::span<const PaddedOperand> operands, const Shape& to) {
  std::optional<ir::Value> result;
  std::int64_t begin = 0;
  for (const PaddedOperand& operand : operands) begin += operand.shape[along];
  for (std::size_t i = operands.size(); i-- > 0;) {
    const PaddedOperand& operand = operands[i];
    begin -= operand.shape[along];
    const Shape& stored = operand.value.aval().shape;
    Integers low(to.size()), high = low;
    for (std::size_t d = 0; d < to.size(); ++d) high[d] = to[d] - stored[d];
    low[along] = begin - operand.skipped;
    high[along] -= low[along];
    const ir::Value part = padded(operand.value, low, high);
    result =
        result ? ir::lax::select(before(part, to, along, begin + operand.shape[along]), part, *result) : part;
  }
  return *result;
}

}  // namespace

bool can_resize(const ir::Equation& equation) {
  return equation.primitive == &ir::slice_p() || equation.primitive == &ir::pad_p() ||
         equation.primitive == &ir::concatenate_p();
}

bool is_slice_along(const ir::Equation& equation, const Shape& operand, std::size_t dimension) {
  if (equation.primitive != &ir::slice_p()) return false;
  const auto& s = equation.params.as<ir::SliceParams>();
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (s.strides[d] != 1) return false;
    if (d != dimension && (s.start_indices[d] != 0 || s.limit_indices[d] != operand[d])) return false;
  }
  return true;
}

ir::PadParams pad_of(const ir::SliceParams& slice, const ir::PadParams& pad, const Shape& operand) {
  ir::PadParams both = pad;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    both.low[d] = pad.low[d] - slice.start_indices[d];
    both.high[d] = slice.limit_indices[d] - pad.low[d] - operand[d];
  }
  return both;
}

UnevenResults uneven_results(const FlatProgram& flat, const std::vector<Split>& splits, const Grid& grid) {
  const ir::Program& program = flat.program;
  std::vector<std::size_t> made_by(program.variables.size(), program.equations.size());
  for (std::size_t e = 0; e < program.equations.size(); ++e)
    for (ir::Var var : program.equations[e].outputs) made_by[static_cast<std::size_t>(var)] = e;
  const ir::Uses all_uses = flat.uses();
  std::vector<std::size_t> uses(program.variables.size());  // that are left
  for (std::size_t v = 0; v < uses.size(); ++v) uses[v] = all_uses.count(static_cast<ir::Var>(v));
  UnevenResults results;
  auto parts_of = [&](ir::Var var, std::size_t d) {
    return grid.size(splits[static_cast<std::size_t>(var)][d]);
  };
  auto up = [](std::int64_t size, std::int64_t parts) { return (size + parts - 1) / parts * parts; };
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& equation = program.equations[e];
    if (flat.origins[e] == nullptr || !can_resize(equation)) continue;
    const Shape& shape = program.aval(equation.outputs[0]).shape;
    Shape to = shape;
    const bool concatenates = equation.primitive == &ir::concatenate_p();
    for (std::size_t i = 0; i < (concatenates ? equation.inputs.size() : 1); ++i) {
      const ir::Var var = equation.inputs[i];
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t parts = parts_of(var, d);
        if (shape[d] % parts == 0 || shape[d] < parts || program.aval(var).shape[d] == shape[d]) continue;
        to[d] = up(shape[d], parts);
      }
    }
    if (to != shape) results.shapes[flat.origins[e]] = to;
    if (!concatenates) continue;
    const auto along = static_cast<std::size_t>(equation.params.as<ir::ConcatenateParams>().dimension);
    for (ir::Var var : equation.inputs) {
      const std::size_t made = made_by[static_cast<std::size_t>(var)];
      if (made == program.equations.size()) continue;
      const ir::Equation& slice = program.equations[made];
      if (flat.origins[made] == nullptr || slice.inputs.empty() ||
          !is_slice_along(slice, program.aval(slice.inputs[0]).shape, along))
        continue;
      const std::int64_t parts = parts_of(slice.inputs[0], along);
      if (parts == 1) continue;
      to[along] = up(shape[along], parts);
      results.shapes[flat.origins[e]] = to;
    }
    if (!results.shapes.contains(flat.origins[e])) continue;
    for (ir::Var var : equation.inputs) --uses[static_cast<std::size_t>(var)];
  }
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& slice = program.equations[e];
    if (slice.primitive != &ir::slice_p() || !all_are(slice.params.as<ir::SliceParams>().strides, 1))
      continue;
    const std::size_t made = made_by[static_cast<std::size_t>(slice.inputs[0])];
    if (made == program.equations.size() || program.equations[made].primitive != &ir::pad_p()) continue;
    const ir::Equation& pad = program.equations[made];
    if (!results.shapes.contains(flat.origins[made]) || !all_are(pad.params.as<ir::PadParams>().interior, 0))
      continue;
    results.of_pads[flat.origins[e]] = flat.origins[made];
    if (--uses[static_cast<std::size_t>(slice.inputs[0])] == 0) results.within.insert(flat.origins[made]);
  }
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& equation = program.equations[e];
    if (equation.primitive != &ir::slice_p() || uses[static_cast<std::size_t>(equation.outputs[0])] > 0)
      continue;
    results.within.insert(flat.origins[e]);
  }
  return results;
}

std::optional<Shape> resized_shape(const ir::Equation& equation, std::span<const PaddedOperand> operands,
                                   const Shape& shape) {
  if (!can_resize(equation)) return std::nullopt;
  Shape to = shape;
  bool any = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    for (const PaddedOperand& operand : operands) {
      if (operand.shape.size() != shape.size()) continue;  // what a pad pads with
      const std::int64_t stored = operand.value.aval().shape[d];
      if (stored == operand.shape[d]) continue;
      any = true;
      // A dimension that is not changed keeps its padding.
      const bool fits = operand.shape[d] == shape[d] || (shape[d] < stored && 2 * shape[d] > stored);
      if (fits) to[d] = std::max(to[d], stored);
    }
  }
  return any ? std::optional(std::move(to)) : std::nullopt;
}

ir::Value resized(const ir::Equation& equation, std::span<const PaddedOperand> operands, const Shape& shape,
                  const Shape& to) {
  if (equation.primitive == &ir::slice_p())
    return resized_slice(equation.params.as<ir::SliceParams>(), operands[0], shape, to);
  if (equation.primitive == &ir::pad_p())
    return resized_pad(equation.params.as<ir::PadParams>(), operands[0], operands[1].value, to);
  return resized_concatenate(static_cast<std::size_t>(equation.params.as<ir::ConcatenateParams>().dimension),
                             operands, to);
}

}  // namespace lockstep::sharding
