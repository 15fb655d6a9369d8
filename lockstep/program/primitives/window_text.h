// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/program/primitives/window.h"

/// Writes reduce_window and reduce as StableHLO.
namespace lockstep::ir {

class Lowering;

/// The reduction of operand 0 over windows; `body` computes %c from the scalars %a and %b.
std::string lower_reduce_window(Lowering& out, const Equation& e, const WindowParams& params,
                                const Scalar& identity, const std::string& body);

/// ` result = "stablehlo.op"(a, b) : …`, for two scalars. `maximum` and `minimum` of complex numbers compare
/// the real parts, then the imaginary ones.
std::string binary_text(std::string_view result, std::string_view op, std::string_view a, std::string_view b,
                        DType dtype);

/// Writes a reduction of `operand`, which is like x, over the axes by an operation on two elements, as in
/// `binary_text`.
std::string reduced_text(Lowering& out, std::string_view stablehlo, const Scalar& identity,
                         const std::string& operand, const Aval& x, const std::vector<std::int64_t>& axes);

}  // namespace lockstep::ir
