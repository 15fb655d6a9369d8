// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the sources of lockstep/ops/linalg.h.

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/ops/apply.h"

namespace lockstep::linalg::internal {

inline std::int64_t rows(const Shape& shape) { return shape[shape.size() - 2]; }

/// Throws DTypeError for complex numbers, and ShapeError unless x is a batch of matrices, or, with `square`,
/// of square ones.
void check(std::string_view operation, const Operand& x, bool square);

/// Runs an operation with several results. The operands are converted to f64 if one of them is f64, else to
/// f32.
std::vector<Array> run(const std::string& name, std::initializer_list<Array> operands,
                       const std::function<std::vector<Array>(ops::Tracers)>& compose,
                       const std::string& key = "");

Array transposed(const Array& x);
Array identity_like(const Array& x);  ///< has x's shape, which is square
Array diagonal_of(const Array& x);

/// Broadcasts the batch dimensions of a and b against each other.
std::pair<Array, Array> with_common_batch(std::string_view operation, const Array& a, const Array& b);

/// Throws ShapeError unless b is a vector or a batch of matrices with as many elements or rows as a has
/// columns.
void check_system(std::string_view operation, const Operand& a, const Operand& b);

/// Within a trace: the results of `function`, with the derivative given by `rule`, which maps operands and
/// tangents to results and tangents. All operands and results are inexact. The rule is traced immediately, so
/// it must not call the function that it belongs to; higher derivatives are those of the rule's own
/// operations.
std::vector<Array> with_derivative(
    const std::vector<Array>& operands,
    const std::function<std::vector<Array>(const std::vector<Array>&)>& function,
    const std::function<std::pair<std::vector<Array>, std::vector<Array>>(
        const std::vector<Array>& operands, const std::vector<Array>& tangents)>& rule);

/// y with a y = b for matrices b with a's batch dimensions; computed by a decomposition of a, also in
/// derivatives.
Array solve_matrices(const Array& a, const Array& b);

}  // namespace lockstep::linalg::internal
