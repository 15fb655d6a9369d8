// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/replay.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::transforms {

Bindings::Bindings(const ir::Program& program) : values_(program.variables.size()) {
  if (!program.axes.axes().empty()) axes_.emplace(with_mapped_axes(program.axes));
}

Bindings::Bindings(std::string_view transform, const ir::Program& program, std::span<const ir::Value> inputs)
    : Bindings(program) {
  if (inputs.size() != program.inputs.size()) {
    fail("[{}] {} takes {} inputs, got {}", transform, program.name, program.inputs.size(), inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) set(program.inputs[i], inputs[i]);
}

std::vector<ir::Value> Bindings::all(std::span<const ir::Var> vars) const {
  std::vector<ir::Value> values;
  values.reserve(vars.size());
  for (ir::Var var : vars) values.push_back((*this)[var]);
  return values;
}

ir::AxisEnv with_mapped_axes(ir::AxisEnv env) {
  const ir::AxisEnv& current = ir::AxisEnv::current();
  for (const auto& [axis, size] : current.axes()) {
    if (current.is_mapped(axis) && !env.has(axis)) env = env.with_mapped(axis, size);
  }
  return env;
}

void check_flags(std::string_view transform, const ir::Program& program, const std::vector<bool>& flags) {
  if (flags.size() != program.inputs.size()) {
    fail("[{}] {} takes {} inputs, got flags for {}", transform, program.name, program.inputs.size(),
         flags.size());
  }
}

void check_differentiable(std::string_view transform, const ir::Program& program,
                          const std::vector<bool>& wrt) {
  check_flags(transform, program, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const Aval& aval = program.aval(program.inputs[i]);
    if (wrt[i] && !is_inexact(aval.dtype)) {
      fail<TraceError>(
          "[{}] input {} of {} is {}: {} cannot be differentiated; convert it to a floating dtype, or do not "
          "differentiate with respect to it",
          transform, i, program.name, to_string(aval), aval.dtype == DType::kBool ? "a bool" : "an integer");
    }
  }
}

ir::Value zeros(ir::Builder& builder, const Aval& aval) {
  ir::Value zero = builder
                       .emit(ir::full_p(),
                             ir::OpParams::of(ir::FullParams{
                                 is_inexact(aval.dtype) ? ir::Scalar::of(0.0) : ir::Scalar::of(0), aval.dtype,
                                 aval.shape, aval.weak_type}),
                             {})
                       .front();
  return aval.varying.empty() ? zero : ir::lax::pvary(zero, aval.varying);
}

ir::Value conform(const ir::Value& x, const Aval& aval, const ir::Primitive& from) {
  const Aval& given = x.aval();
  if (given.shape != aval.shape || given.dtype != aval.dtype) {
    fail_internally("[{}] a derivative rule gave {} where {} belongs", from.name, to_string(given),
                    to_string(aval));
  }
  if (given.varying == aval.varying) return x;
  const std::vector<std::string> surplus = ir::minus(given.varying, aval.varying);
  return ir::lax::vary_over(surplus.empty() ? x : ir::lax::psum(x, surplus), aval.varying);
}

ir::Value made_explicit(ir::Builder& builder, const std::optional<ir::Value>& x, const Aval& aval) {
  if (!x) return zeros(builder, aval);
  return ir::lax::convert_element_type(*x, aval.dtype, aval.weak_type);
}

}  // namespace lockstep::transforms
