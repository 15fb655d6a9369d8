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

/// Throws DTypeError for complex numbers, and ShapeError where x is not of matrices, or of square ones.
void check(std::string_view operation, const Operand& x, bool square);

/// As an operation of several results, of its operands made f64 where one is, else f32.
std::vector<Array> run(const std::string& name, std::initializer_list<Array> operands,
                       const std::function<std::vector<Array>(ops::Tracers)>& compose,
                       const std::string& key = "");

Array transposed(const Array& x);
Array identity_like(const Array& x);  ///< of x's shape, which is square
Array diagonal_of(const Array& x);
double epsilon(DType dtype);

/// With b's dimensions before the last two those of a, and the other way round.
std::pair<Array, Array> with_common_batch(std::string_view operation, const Array& a, const Array& b);

/// Throws ShapeError unless b is a vector, or matrices, of as many elements or rows as a has columns.
void check_system(std::string_view operation, const Operand& a, const Operand& b);

/// Within a trace: what `function` gives of the operands, with the derivative that `rule` gives: of them and
/// their tangents the results and their tangents. All operands and results are inexact. The rule is traced at
/// once, so it does not call what it is the rule of, and higher derivatives are those of what it does.
std::vector<Array> with_derivative(
    const std::vector<Array>& operands,
    const std::function<std::vector<Array>(const std::vector<Array>&)>& function,
    const std::function<std::pair<std::vector<Array>, std::vector<Array>>(
        const std::vector<Array>& operands, const std::vector<Array>& tangents)>& rule);

/// y with a y = b for matrices b of a's batch; by a's decomposition, as far as derivatives go, too.
Array solve_matrices(const Array& a, const Array& b);

}  // namespace lockstep::linalg::internal
