// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/aval.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::int64_t num_elements(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t size : shape) n *= size;
  return n;
}

std::string to_string(const Aval& aval) {
  std::string text = fmt::format("{}{}", name(aval.dtype), to_string(aval.shape));
  if (aval.weak_type) text += '*';
  if (!aval.varying.empty()) text += fmt::format("{{{}}}", fmt::join(aval.varying, ","));
  return text;
}

}  // namespace lockstep
