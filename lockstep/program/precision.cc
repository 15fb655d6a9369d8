// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/precision.h"

#include "lockstep/base/fail.h"

namespace lockstep::ir {

std::optional<std::string> precision_text(Precision precision) {
  switch (precision) {
    case Precision::kDefault:
      break;
    case Precision::kHigh:
      return "HIGH";
    case Precision::kHighest:
      return "HIGHEST";
  }
  return std::nullopt;
}

std::string precision_attribute(const std::optional<std::string>& precision) {
  if (!precision) return "";
  return fmt::format(", precision_config = [#stablehlo<precision {0}>, #stablehlo<precision {0}>]",
                     *precision);
}

DType product_dtype(DType operands, const std::optional<DType>& preferred) {
  if (!preferred) return operands;
  if (info(*preferred).kind == info(operands).kind && size_of(*preferred) >= size_of(operands))
    return *preferred;
  fail<DTypeError>("expected a preferred_element_type that holds {}, got {}; convert the result with astype",
                   name(operands), name(*preferred));
}

}  // namespace lockstep::ir
