#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/program/aval.h"

namespace lockstep {

/// How exactly a product of f32 is computed where the device has faster ways: of GPUs and TPUs, kHigh and
/// kHighest leave the narrow formats of their matrix units out; on CPUs all are the same.
enum class Precision : std::uint8_t { kDefault, kHigh, kHighest };

/// For primitives that multiply and add up: the parameter's text, none of the default; the attribute of
/// StableHLO for two operands, or nothing.
std::optional<std::string> precision_text(Precision precision);
std::string precision_attribute(const std::optional<std::string>& precision);

/// The dtype of sums of products of this one. Throws DTypeError for a preferred one that is of another kind,
/// or narrower.
DType product_dtype(DType operands, const std::optional<DType>& preferred);

}  // namespace lockstep
