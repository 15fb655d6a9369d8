// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/nested.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/dce.h"

namespace lockstep::transforms {
namespace {

/// Throws ShardingError if devices along an axis may take different branches, and the program contains a
/// collective along it.
void check_no_collective_along(const ir::Program& program, const std::vector<std::string>& varying,
                               const ir::Primitive& primitive) {
  if (varying.empty()) return;
  ir::for_each_equation(program, [&](const ir::Equation& equation) {
    const ir::Exchange exchange = equation.primitive->exchange(equation.params);
    if (exchange.kind.empty()) return;
    for (const std::string& axis : exchange.axes) {
      if (!std::ranges::binary_search(varying, axis)) continue;
      fail<ShardingError>(
          "[{}] the value that decides differs between the devices along '{}', but they must all do the {} "
          "over '{}' of {} together (at {}); make it the same on all with psum, pmax or another reduction "
          "over '{}'",
          primitive.name, axis, equation.primitive->name, axis, equation.site.to_string(),
          CallSiteScope::current().to_string(), axis);
    }
  });
}

bool same_type(const Aval& a, const Aval& b) { return a.dtype == b.dtype && a.shape == b.shape; }

}  // namespace

ProgramPtr Inner::finish(std::span<const ir::Value> outputs) {
  ProgramPtr program = shared(eliminate_dead_code(builder_.finish(outputs)));
  reset_.reset();
  return program;
}

ProgramPtr Inner::finish(std::span<const ir::Value> outputs, std::span<const ir::Value> inputs) {
  ir::Program program = builder_.finish(outputs);
  if (inputs.size() != program.inputs.size())
    fail("a program of {} inputs was given an order of {} inputs", program.inputs.size(), inputs.size());
  std::ranges::transform(inputs, program.inputs.begin(), &ir::Value::var);
  reset_.reset();
  return shared(eliminate_dead_code(std::move(program)));
}

std::vector<bool> given(std::span<const std::optional<ir::Value>> values) {
  std::vector<bool> flags;
  for (const auto& value : values) flags.push_back(value.has_value());
  return flags;
}

void check_operands(std::string_view what, std::span<const Aval> operands, std::span<const Aval> inputs) {
  if (operands.size() != inputs.size()) {
    fail<ShapeError>("{} takes {} operands, got {}", what, inputs.size(), operands.size());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (same_type(operands[i], inputs[i])) continue;
    fail<ShapeError>("operand {} of {} is {}, expected {}", i, what, to_string(operands[i]),
                     to_string(inputs[i]));
  }
}

void check_outputs(std::string_view what, const std::vector<Aval>& outputs,
                   const std::vector<Aval>& expected) {
  if (outputs.size() != expected.size()) {
    fail<ShapeError>("{} gives {} results, expected {}", what, outputs.size(), expected.size());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (same_type(outputs[i], expected[i])) continue;
    fail<ShapeError>("result {} of {} is {}, expected {}", i, what, to_string(outputs[i]),
                     to_string(expected[i]));
  }
}

std::vector<bool> live_inputs(const ir::Program& program, const std::vector<bool>& outputs) {
  ir::Program part = program;
  std::size_t next = 0;
  std::erase_if(part.outputs, [&](ir::Var) { return !outputs[next++]; });
  part = eliminate_dead_code(std::move(part));
  const ir::Uses uses(part);
  std::vector<bool> live;
  for (ir::Var var : part.inputs) live.push_back(uses.is_used(var));
  return live;
}

ProgramPtr restricted(const ir::Program& program, const std::vector<bool>& inputs,
                      const std::vector<bool>& outputs) {
  ir::Program part = program;
  std::size_t next = 0;
  std::erase_if(part.outputs, [&](ir::Var) { return !outputs[next++]; });
  part = eliminate_dead_code(std::move(part));
  next = 0;
  std::erase_if(part.inputs, [&](ir::Var) { return !inputs[next++]; });
  return shared(std::move(part));
}

std::vector<ir::NestedLink> links_to_all(const ir::Program& program) {
  std::vector<ir::NestedLink> links;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    links.push_back({ir::NestedLink::kEquation, i, 0, i});
  for (std::size_t k = 0; k < program.outputs.size(); ++k)
    links.push_back({0, k, ir::NestedLink::kEquation, k});
  return links;
}

ir::PrunedEquation unpruned(const ir::OpParams& params, std::size_t operands, std::size_t results) {
  return {params, std::vector<bool>(operands, true), std::vector<bool>(results, true)};
}

ir::Primitive nested_primitive(std::string name, decltype(ir::Primitive::shape) shape,
                               decltype(ir::Primitive::transpose) transpose,
                               decltype(ir::Primitive::lower) lower, ir::NestedRules nested) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .sharding = whole,
          .jvp = ir::nested_jvp,
          .transpose = std::move(transpose),
          .batching = ir::nested_batching,
          .flops = ir::flops_of_programs,
          .zero_padding = ir::ZeroPadding::kCounts,
          .exchange = ir::no_exchange,
          .lower = std::move(lower),
          .sets_varying = true,
          .nested = std::move(nested)};
}

ir::ShardingRule whole(std::span<const Aval> inputs, std::span<const Aval> outputs, const ir::OpParams&) {
  return ir::ShardingRule::replicated(inputs, outputs);
}

Aval stacked(Aval aval, std::int64_t size) {
  aval.shape = ir::rules::prepended(size, std::move(aval.shape));
  return aval;
}

Aval stacked(Aval aval, const ir::MappedAxis& axis) {
  aval.varying = ir::both(aval.varying, axis.varying);
  return stacked(std::move(aval), axis.size);
}

Values inputs_of(Inner& inner, const ir::Program& program, const std::vector<bool>& batched,
                 const ir::MappedAxis& axis) {
  Values inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Aval& aval = input_aval(program, i);
    inputs.push_back(inner.input(batched[i] ? stacked(aval, axis) : aval));
  }
  return inputs;
}

bool widen(std::vector<bool>& batched, std::size_t first, ir::VmapValues& outputs, std::size_t num_carry,
           const ir::MappedAxis& axis) {
  bool widened = false;
  for (std::size_t k = 0; k < num_carry; ++k) {
    if (outputs.batched[k] && !batched[first + k]) batched[first + k] = widened = true;
  }
  if (widened) return true;
  for (std::size_t k = 0; k < num_carry; ++k) {
    if (!batched[first + k]) continue;
    ir::Value& output = outputs.outputs[k];
    if (!outputs.batched[k]) output = ir::rules::broadcast_leading(output, axis.size);
    output = vary_over(output, axis.varying);
    outputs.batched[k] = true;
  }
  return false;
}

ir::Value swap_leading(const ir::Value& x) {
  std::vector<std::int64_t> permutation(x.aval().shape.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[0], permutation[1]);
  return ir::lax::transpose(x, permutation);
}

std::vector<ir::Value> emit_nested(ir::Builder& builder, const ir::Primitive& primitive, ir::OpParams params,
                                   std::span<const ir::Value> operands) {
  std::vector<ir::Value> values(operands.begin(), operands.end());
  const std::vector<ir::NestedProgram> programs = primitive.nested->programs(params);
  const std::vector<ir::NestedLink> links = primitive.nested->links(params);
  for (const ir::NestedLink& link : links) {
    if (link.from_program != ir::NestedLink::kEquation) continue;
    const ir::Program& program = *programs[static_cast<std::size_t>(link.to_program)].program;
    values[link.from] = vary_over(values[link.from], input_aval(program, link.to).varying);
  }
  auto check = [&](const std::vector<std::string>& varying) {
    for (const ir::NestedProgram& nested : programs)
      check_no_collective_along(*nested.program, varying, primitive);
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (ir::decides(links, ir::NestedLink::kEquation, i)) check(values[i].aval().varying);
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const ir::Program& program = *programs[p].program;
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      if (ir::decides(links, static_cast<int>(p), k)) check(output_aval(program, k).varying);
    }
  }
  return builder.emit(primitive, std::move(params), values);
}

std::span<const ir::Primitive* const> nested_primitives() {
  static const ir::Primitive* const all[] = {&cond_p(),          &while_p(),      &scan_p(),
                                             &remat_p(),         &custom_jvp_p(), &custom_vjp_p(),
                                             &custom_linear_p(), &attention_p()};
  return all;
}

}  // namespace lockstep::transforms
