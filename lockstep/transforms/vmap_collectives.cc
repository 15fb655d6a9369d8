// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/vmap_collectives.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::transforms {
namespace {

bool is_any(const ir::Equation& equation, std::initializer_list<const ir::Primitive*> primitives) {
  return std::ranges::find(primitives, equation.primitive) != primitives.end();
}

/// x with dimension `from` taken out and put in as dimension `to`.
ir::Value moved(const ir::Value& x, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < x.aval().rank(); ++d) {
    if (d != from) order.push_back(d);
  }
  order.insert(order.begin() + to, from);
  return ir::lax::transpose(x, order);
}

/// The leading dimension merged into dimension `d` of the rest, as its major part.
ir::Value merged(const ir::Value& x, std::int64_t d) {
  ir::Value there = moved(x, 0, d);
  Shape shape = there.aval().shape;
  shape[static_cast<std::size_t>(d) + 1] *= shape[static_cast<std::size_t>(d)];
  shape.erase(shape.begin() + d);
  return ir::lax::reshape(there, shape);
}

/// The same of the second dimension, for each index of the first.
ir::Value merged_behind_first(const ir::Value& x, std::int64_t d) {
  ir::Value there = moved(x, 1, d + 1);
  Shape shape = there.aval().shape;
  shape[static_cast<std::size_t>(d) + 2] *= shape[static_cast<std::size_t>(d) + 1];
  shape.erase(shape.begin() + d + 1);
  return ir::lax::reshape(there, shape);
}

/// Dimension `d` cut into n parts, which are counted by a new dimension in front.
ir::Value cut(const ir::Value& x, std::int64_t d, std::int64_t n) {
  Shape shape = x.aval().shape;
  shape[static_cast<std::size_t>(d)] /= n;
  shape.insert(shape.begin() + d, n);
  return moved(ir::lax::reshape(x, shape), d, 0);
}

/// Example i of the result is the one that is sent to it; zeros if there is none.
ir::Value permuted(const ir::Value& x, const std::vector<std::pair<int, int>>& pairs, std::int64_t size) {
  std::vector<ir::Value> examples;
  for (int target = 0; target < size; ++target) {
    auto sender = std::ranges::find(pairs, target, &std::pair<int, int>::second);
    Shape start(x.aval().shape.size(), 0), limit = x.aval().shape;
    start[0] = sender == pairs.end() ? 0 : sender->first;
    limit[0] = start[0] + 1;
    ir::Value example = ir::lax::slice(x, start, limit);
    examples.push_back(sender == pairs.end() ? ir::lax::full_like(example, 0) : example);
  }
  return ir::lax::concatenate(std::span<const ir::Value>(examples), 0);
}

/// A sum, maximum or minimum over the examples, and over the other axes if there are any.
std::pair<ir::Value, bool> reduced(const ir::Equation& e, const ir::Value& x, bool batched, std::int64_t size,
                                   const std::string& axis) {
  ir::Value result = x;
  if (batched) {
    const ir::Primitive& over_examples = e.primitive == &ir::psum_p()   ? ir::reduce_sum_p()
                                         : e.primitive == &ir::pmax_p() ? ir::reduce_max_p()
                                                                        : ir::reduce_min_p();
    result = ir::lax::reduce(over_examples, x, {0});
  } else if (e.primitive == &ir::psum_p()) {
    result = ir::lax::mul(x, ir::lax::full_like(x, static_cast<double>(size)));
  }
  ir::AxesParams rest = e.params.as<ir::AxesParams>();
  std::erase(rest.axes, axis);
  if (!rest.axes.empty()) result = ir::lax::apply1<ir::Value>(*e.primitive, ir::OpParams::of(rest), {result});
  return {result, false};
}

}  // namespace

bool names_axis(const ir::Equation& equation, const std::string& axis) {
  if (axis.empty()) return false;
  const std::vector<std::string> axes = equation.primitive->exchange(equation.params).axes;
  return std::ranges::find(axes, axis) != axes.end();
}

bool holds_collective(const ir::Equation& equation, const std::string& axis) {
  if (axis.empty() || !equation.primitive->nested) return false;
  auto within = [&](const ir::Program& program) {
    return std::ranges::any_of(program.equations, [&](const ir::Equation& inner) {
      return names_axis(inner, axis) || holds_collective(inner, axis);
    });
  };
  auto programs = equation.primitive->nested->programs(equation.params);
  if (std::ranges::any_of(programs, [&](const ir::NestedProgram& nested) { return within(*nested.program); }))
    return true;
  const auto& own = equation.primitive->nested->own_derivative;
  return own && std::ranges::any_of(own(equation.params), [&](const auto& each) { return within(*each); });
}

std::pair<ir::Value, bool> collective_over_examples(const ir::Equation& e,
                                                    std::span<const ir::Value> operands,
                                                    std::span<const bool> batched,
                                                    const ir::MappedAxis& mapped, ir::Builder& builder) {
  const std::int64_t size = mapped.size;
  const std::string& axis = mapped.name;
  if (e.primitive->exchange(e.params).in_groups) {
    fail<TraceError>("[{}] axis_index_groups are not supported along '{}', which vmap maps over (at {})",
                     e.primitive->name, axis, e.site.to_string());
  }
  if (is_any(e, {&ir::psum_p(), &ir::pmax_p(), &ir::pmin_p()}))
    return reduced(e, operands[0], batched[0], size, axis);
  if (e.primitive->exchange(e.params).axes.size() > 1) {
    fail<TraceError>(
        "[{}] is over '{}', which vmap maps over, and other axes at once (at {}); do one after the "
        "other",
        e.primitive->name, axis, e.site.to_string());
  }
  if (e.primitive == &ir::axis_index_p()) {
    ir::Value index =
        builder.emit(ir::iota_p(), ir::OpParams::of(ir::IotaParams{DType::kI32, {size}, 0}), {}).front();
    return {index, true};
  }
  if (e.primitive == &ir::pvary_p()) return {operands[0], batched[0]};

  ir::Value x = batched[0] ? operands[0] : ir::rules::broadcast_leading(operands[0], size);
  if (e.primitive == &ir::all_gather_p())
    return {merged(x, e.params.as<ir::GatherParams>().dimension), false};
  if (e.primitive == &ir::psum_scatter_p()) {
    return {cut(ir::lax::reduce_sum(x, {0}), e.params.as<ir::GatherParams>().dimension, size), true};
  }
  if (e.primitive == &ir::all_to_all_p()) {
    const auto& p = e.params.as<ir::AllToAllParams>();
    // [sender, ...] -> [receiver, sender, ...] -> the senders' parts put together.
    ir::Value parts = cut(x, p.split_dimension + 1, size);
    return {merged_behind_first(parts, p.concat_dimension), true};
  }
  return {permuted(x, e.params.as<ir::PermuteParams>().pairs, size), true};
}

}  // namespace lockstep::transforms
