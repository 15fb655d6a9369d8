// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/exact_number.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lockstep/array/data.h"
#include "lockstep/array/host.h"
#include "lockstep/array/trace.h"
#include "lockstep/array/trace_life.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::internal {
namespace {

Array weak_f64(double value) { return array_from_host(&value, DType::kF64, {}, /*weak_type=*/true); }

bool is_arithmetic(const ir::Primitive* primitive) {
  static const std::array all = {&ir::neg_p(),   &ir::abs_p(),  &ir::exp_p(),  &ir::expm1_p(), &ir::log_p(),
                                 &ir::log1p_p(), &ir::tanh_p(), &ir::sqrt_p(), &ir::rsqrt_p(), &ir::sin_p(),
                                 &ir::cos_p(),   &ir::add_p(),  &ir::sub_p(),  &ir::mul_p(),   &ir::div_p(),
                                 &ir::rem_p(),   &ir::pow_p(),  &ir::max_p(),  &ir::min_p()};
  return std::ranges::find(all, primitive) != all.end();
}

/// The value in f64, in its own trace, or nullopt if it is not made of numbers only.
std::optional<ir::Value> exact_value(Trace::Life& life, ir::Var var) {
  Trace& trace = *life.trace;
  ir::Builder& builder = trace.builder();
  if (const auto found = life.doubles.find(var); found != life.doubles.end())
    return trace.value_of(found->second);
  const Aval aval = builder.aval(var);
  if (!aval.weak_type || !aval.shape.empty()) return std::nullopt;
  const std::vector<ir::Equation>& equations = builder.program().equations;
  const auto made = std::find_if(equations.rbegin(), equations.rend(), [&](const ir::Equation& equation) {
    return std::ranges::find(equation.outputs, var) != equation.outputs.end();
  });
  if (made == equations.rend()) return std::nullopt;
  const ir::Equation equation = *made;  // more are added
  std::vector<ir::Value> inputs;
  ir::OpParams params = equation.params;
  if (equation.primitive == &ir::full_p()) {
    params = ir::OpParams::of(ir::FullParams{params.as<ir::FullParams>().value, DType::kF64, {}, true});
  } else if (equation.primitive == &ir::convert_element_type_p() &&
             is_integer(builder.aval(equation.inputs[0]).dtype)) {
    params = ir::OpParams::of(ir::ConvertParams{DType::kF64, true});
    inputs.emplace_back(&builder, equation.inputs[0]);
  } else if (aval.dtype == DType::kF32 && is_arithmetic(equation.primitive)) {
    for (ir::Var input : equation.inputs) {
      const std::optional<ir::Value> exact = exact_value(life, input);
      if (!exact) return std::nullopt;
      inputs.push_back(*exact);
    }
  } else {
    return std::nullopt;
  }
  const ir::Value exact = builder.emit(*equation.primitive, std::move(params), inputs).front();
  life.doubles[var] = trace.wrap(exact);
  return exact;
}

}  // namespace

bool may_be_number(const Aval& aval) {
  return aval.weak_type && aval.dtype == DType::kF32 && aval.shape.empty();
}

Array number_in_f64(const Array& number) {
  const ArrayData& data = concrete(number, "[convert_element_type]");
  if (data.number) return weak_f64(*data.number);
  return apply_primitive(ir::convert_element_type_p(), ir::OpParams::of(ir::ConvertParams{DType::kF64, true}),
                         std::span(&number, 1))
      .front();
}

Array exact_number(const Array& x) {
  if (!may_be_number(x.aval())) return x;
  const ArrayData& data = *internal::data_of(x);
  if (data.type) return data.number ? weak_f64(*data.number) : x;
  if (data.trace->trace == nullptr) return x;  // it has leaked, which its use reports
  const std::optional<ir::Value> exact = exact_value(*data.trace, data.var);
  return exact ? data.trace->trace->wrap(*exact) : x;
}

void NumberInputs::add(const Array& tracer, std::size_t leaf) {
  if (!may_be_number(tracer.aval())) return;
  const ArrayData& data = *internal::data_of(tracer);
  doubles_.emplace_back(weak_f64(0), leaf);
  data.trace->doubles[data.var] = doubles_.back().first;
}

NumberInputs::Places NumberInputs::places(std::span<const Array> captures) const {
  Places places;
  for (std::size_t i = 0; i < captures.size(); ++i) {
    for (const auto& [stands_for, leaf] : doubles_)
      if (data_of(captures[i]) == data_of(stands_for)) places.emplace_back(i, leaf);
  }
  return places;
}

}  // namespace lockstep::internal
