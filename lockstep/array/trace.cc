// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/trace.h"

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/trace_life.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/program/primitive.h"

namespace lockstep {
namespace {

thread_local Trace* innermost = nullptr;

}  // namespace

Trace::Trace(std::string name)
    : builder_(name), enclosing_(innermost), life_(std::make_shared<Life>(Life{this, std::move(name)})) {
  check_before_end(life_->name);
  innermost = this;
}

Trace::~Trace() {
  life_->trace = nullptr;
  life_->doubles.clear();
  innermost = enclosing_;
}

Trace* Trace::current() { return innermost; }

Array Trace::input(const Aval& aval) { return wrap(builder_.input(aval)); }

Array Trace::wrap(const ir::Value& value) {
  auto data = std::make_shared<internal::ArrayData>();
  data->trace = life_;
  data->var = value.var();
  data->aval = value.aval();
  data->made_at = CallSiteScope::current();
  return internal::array_with(std::move(data));
}

ir::Value Trace::value_of(const Array& array) {
  if (!array.valid()) {
    fail<TraceError>("[{}] an Array without a value is used (at {}); assign it first",
                     builder_.program().name, CallSiteScope::current().to_string());
  }
  internal::ArrayData& data = *internal::data_of(array);
  if (data.trace == life_) return ir::Value(&builder_, data.var);
  if (data.trace) internal::check_not_leaked(array, fmt::format("[{}]", builder_.program().name));
  if (auto it = captured_.find(&data); it != captured_.end()) return it->second;
  ir::Value value = builder_.input(array.aval());
  captured_.emplace(&data, value);
  captures_.push_back(array);
  return value;
}

void internal::check_not_leaked(const Array& array, std::string_view use) {
  const ArrayData& data = *internal::data_of(array);
  if (!data.trace || data.trace->trace != nullptr) return;
  fail<TraceError>(
      "{} a traced {} made in {} (at {}) is used (at {}) after its function has ended: it has leaked. Return "
      "it from the function instead of storing it elsewhere",
      use, to_string(data.aval), data.trace->name, data.made_at.to_string(),
      CallSiteScope::current().to_string());
}

ir::Program Trace::finish(std::span<const Array> outputs) {
  std::vector<ir::Value> values;
  for (const Array& array : outputs) values.push_back(value_of(array));
  return builder_.finish(values);
}

std::vector<Array> apply_primitive(const ir::Primitive& primitive, ir::OpParams params,
                                   std::span<const Array> inputs) {
  if (Trace* trace = Trace::current()) {
    std::vector<ir::Value> values;
    values.reserve(inputs.size());
    for (const Array& array : inputs) values.push_back(trace->value_of(array));
    std::vector<Array> results;
    for (const ir::Value& value : trace->builder().emit(primitive, std::move(params), values)) {
      results.push_back(trace->wrap(value));
    }
    return results;
  }
  std::string key = params.text();
  return run_operation(primitive.name, key, inputs, [&](std::span<const Array> arrays) {
    return apply_primitive(primitive, std::move(params), arrays);
  });
}

Array apply_primitive_like(const Array&, const ir::Primitive& primitive, ir::OpParams params) {
  return apply_primitive(primitive, std::move(params), std::span<const Array>()).front();
}

}  // namespace lockstep
