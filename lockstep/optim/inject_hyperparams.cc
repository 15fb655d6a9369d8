// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/inject_hyperparams.h"

#include "lockstep/base/fail.h"

namespace lockstep::optim {

const Array& Hyperparams::at(const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  std::string names;
  for (const auto& [each, value] : values_) names += (names.empty() ? "" : ", ") + each;
  fail("[inject_hyperparams] expected one of {}, got \"{}\"", names, name);
}

Schedule Hyperparams::operator[](const std::string& name) const {
  return [value = at(name)](const Array&) { return value; };
}

std::map<std::string, Array> internal::hyperparams_at(const HyperparamValues& values, const Array& count,
                                                      const std::map<std::string, Array>& state,
                                                      std::span<const Array> params) {
  const DType dtype = params.empty() ? DType::kF32 : scale_dtype(params.front().dtype());
  std::map<std::string, Array> numbers;
  for (const auto& [name, value] : values) {
    if (const Schedule* schedule = std::get_if<Schedule>(&value)) {
      numbers[name] = astype((*schedule)(count, dtype), dtype);
    } else if (const auto found = state.find(name); found != state.end()) {
      numbers[name] = found->second;
    } else {
      numbers[name] = constant_schedule(std::get<double>(value))(count, dtype);
    }
  }
  return numbers;
}

}  // namespace lockstep::optim
