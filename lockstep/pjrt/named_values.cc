// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/named_values.h"

namespace lockstep::pjrt {
namespace {

struct PutValue {
  PJRT_NamedValue& to;
  void operator()(bool value) {
    to.type = PJRT_NamedValue_kBool;
    to.bool_value = value;
  }
  void operator()(std::int64_t value) {
    to.type = PJRT_NamedValue_kInt64;
    to.int64_value = value;
  }
  void operator()(float value) {
    to.type = PJRT_NamedValue_kFloat;
    to.float_value = value;
  }
  void operator()(const std::string& value) {
    to.type = PJRT_NamedValue_kString;
    to.string_value = value.data();
    to.value_size = value.size();
  }
  void operator()(const std::vector<std::int64_t>& value) {
    to.type = PJRT_NamedValue_kInt64List;
    to.int64_array_value = value.data();
    to.value_size = value.size();
  }
};

}  // namespace

std::vector<PJRT_NamedValue> named_values(const ClientOptions& options) {
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, option] : options) {
    LOCKSTEP_PJRT_ARGS(PJRT_NamedValue, value);
    value.name = name.data();
    value.name_size = name.size();
    value.value_size = 1;
    std::visit(PutValue{value}, option);
    values.push_back(value);
  }
  return values;
}

namespace {

NamedValue value_of(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return value.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<std::int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
    case PJRT_NamedValue_kFloat:
      return value.float_value;
    case PJRT_NamedValue_kBool:
      return value.bool_value;
  }
  return std::string();
}

}  // namespace

std::map<std::string, NamedValue> values_by_name(std::span<const PJRT_NamedValue> values) {
  std::map<std::string, NamedValue> all;
  for (const PJRT_NamedValue& value : values)
    all.insert_or_assign(std::string(value.name, value.name_size), value_of(value));
  return all;
}

}  // namespace lockstep::pjrt
