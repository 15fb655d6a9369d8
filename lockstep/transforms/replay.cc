// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/replay.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::transforms {

Bindings::Bindings(const Program& program) : values_(program.variables.size()) {
  if (!program.axes.axes().empty()) axes_.emplace(with_mapped_axes(program.axes));
}

Bindings::Bindings(std::string_view transform, const Program& program, std::span<const Value> inputs)
    : Bindings(program) {
  if (inputs.size() != program.inputs.size()) {
    fail("[{}] {} takes {} inputs, got {}", transform, program.name, program.inputs.size(), inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) set(program.inputs[i], inputs[i]);
}

std::vector<Value> Bindings::all(std::span<const Var> vars) const {
  std::vector<Value> values;
  values.reserve(vars.size());
  for (Var var : vars) values.push_back((*this)[var]);
  return values;
}

AxisEnv with_mapped_axes(AxisEnv env) {
  const AxisEnv& current = AxisEnv::current();
  for (const auto& [axis, size] : current.axes()) {
    if (current.is_mapped(axis) && !env.has(axis)) env = env.with_mapped(axis, size);
  }
  return env;
}

void check_flags(std::string_view transform, const Program& program, const std::vector<bool>& flags) {
  if (flags.size() != program.inputs.size()) {
    fail("[{}] {} takes {} inputs, got flags for {}", transform, program.name, program.inputs.size(),
         flags.size());
  }
}

void check_differentiable(std::string_view transform, const Program& program, const std::vector<bool>& wrt) {
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

Value zeros(Builder& builder, const Aval& aval) {
  Value zero = builder
                   .emit(full_p(),
                         OpParams::of(FullParams{is_inexact(aval.dtype) ? Scalar::of(0.0) : Scalar::of(0),
                                                 aval.dtype, aval.shape, aval.weak_type}),
                         {})
                   .front();
  return aval.varying.empty() ? zero : lax::pvary(zero, aval.varying);
}

Value conform(const Value& x, const Aval& aval, const Primitive& from) {
  const Aval& given = x.aval();
  if (given.shape != aval.shape || given.dtype != aval.dtype) {
    fail_internally("[{}] a derivative rule gave {} where {} belongs", from.name, to_string(given),
                    to_string(aval));
  }
  if (given.varying == aval.varying) return x;
  const std::vector<std::string> surplus = minus(given.varying, aval.varying);
  return lax::vary_over(surplus.empty() ? x : lax::psum(x, surplus), aval.varying);
}

Value made_explicit(Builder& builder, const std::optional<Value>& x, const Aval& aval) {
  if (!x) return zeros(builder, aval);
  return lax::convert_element_type(*x, aval.dtype, aval.weak_type);
}

}  // namespace lockstep::transforms
