// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/program/aval.h"

namespace lockstep {

/// The precision of products of f32, if the device has faster, less exact ways. On GPUs and TPUs, kHigh and
/// kHighest do not use the narrow formats of their matrix units; on CPUs all are the same.
enum class Precision : std::uint8_t { kDefault, kHigh, kHighest };

namespace ir {

/// For primitives that multiply and add: the text of the parameter, unset for the default; and StableHLO's
/// attribute for two operands, or an empty text.
std::optional<std::string> precision_text(Precision precision);
std::string precision_attribute(const std::optional<std::string>& precision);

/// The dtype of sums of products of this dtype. Throws DTypeError for a preferred dtype that is of another
/// kind or narrower.
DType product_dtype(DType operands, const std::optional<DType>& preferred);

}  // namespace ir
}  // namespace lockstep
