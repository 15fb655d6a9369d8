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

bool is_arithmetic(const Primitive* primitive) {
  static const std::array all = {&neg_p(),  &abs_p(),   &exp_p(), &expm1_p(), &log_p(), &log1p_p(), &tanh_p(),
                                 &sqrt_p(), &rsqrt_p(), &sin_p(), &cos_p(),   &add_p(), &sub_p(),   &mul_p(),
                                 &div_p(),  &rem_p(),   &pow_p(), &max_p(),   &min_p()};
  return std::ranges::find(all, primitive) != all.end();
}

/// The value in f64, in its own trace, or nullopt if it is not made of numbers only.
std::optional<Value> exact_value(Trace::Life& life, Var var) {
  Trace& trace = *life.trace;
  Builder& builder = trace.builder();
  if (const auto found = life.doubles.find(var); found != life.doubles.end())
    return trace.value_of(found->second);
  const Aval aval = builder.aval(var);
  if (!aval.weak_type || !aval.shape.empty()) return std::nullopt;
  const std::vector<Equation>& equations = builder.program().equations;
  const auto made = std::find_if(equations.rbegin(), equations.rend(), [&](const Equation& equation) {
    return std::ranges::find(equation.outputs, var) != equation.outputs.end();
  });
  if (made == equations.rend()) return std::nullopt;
  const Equation equation = *made;  // more are added
  std::vector<Value> inputs;
  OpParams params = equation.params;
  if (equation.primitive == &full_p()) {
    params = OpParams::of(FullParams{params.as<FullParams>().value, DType::kF64, {}, true});
  } else if (equation.primitive == &convert_element_type_p() &&
             is_integer(builder.aval(equation.inputs[0]).dtype)) {
    params = OpParams::of(ConvertParams{DType::kF64, true});
    inputs.emplace_back(&builder, equation.inputs[0]);
  } else if (aval.dtype == DType::kF32 && is_arithmetic(equation.primitive)) {
    for (Var input : equation.inputs) {
      const std::optional<Value> exact = exact_value(life, input);
      if (!exact) return std::nullopt;
      inputs.push_back(*exact);
    }
  } else {
    return std::nullopt;
  }
  const Value exact = builder.emit(*equation.primitive, std::move(params), inputs).front();
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
  return apply_primitive(convert_element_type_p(), OpParams::of(ConvertParams{DType::kF64, true}),
                         std::span(&number, 1))
      .front();
}

Array exact_number(const Array& x) {
  if (!may_be_number(x.aval())) return x;
  const ArrayData& data = *internal::data_of(x);
  if (data.type) return data.number ? weak_f64(*data.number) : x;
  if (data.trace->trace == nullptr) return x;  // it has leaked, which its use reports
  const std::optional<Value> exact = exact_value(*data.trace, data.var);
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
