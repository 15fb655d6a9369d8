// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/random/random.h"

/// The gamma distribution and distributions made from it, with the numbers of jax.random within a few units
/// in the last place. Each element has its own key, and draws until the rejection test accepts; all elements
/// run in one loop.
///
/// The result has the given shape, to which the parameters broadcast (ShapeError otherwise), or by default
/// the parameters' broadcast shape. It has the given dtype, which must be floating (DTypeError otherwise);
/// the parameters are converted to it. Samples have derivatives with respect to the parameters in both modes,
/// as reparameterised samples, through the series and the continued fraction of the incomplete gamma
/// function, as in JAX.
namespace lockstep::random {

/// With density x^(a - 1) exp(-x) / gamma(a), a > 0. For small a many samples underflow to 0; loggamma
/// returns the logarithms of the same samples, which do not.
Array gamma(const KeyOperand& key, const Operand& a, const Shape& shape = {}, DType dtype = DType::kF32);
Array loggamma(const KeyOperand& key, const Operand& a, const Shape& shape = {}, DType dtype = DType::kF32);

/// With density proportional to x^(a - 1) (1 - x)^(b - 1) in [0, 1].
Array beta(const KeyOperand& key, const Operand& a, const Operand& b, const Shape& shape = {},
           DType dtype = DType::kF32);

/// Positive numbers along the last dimension with sum 1 and density proportional to the product of x^(alpha -
/// 1). `shape` is the shape of the other dimensions. Throws ShapeError if alpha is a scalar.
Array dirichlet(const KeyOperand& key, const Operand& alpha, const Shape& shape = {},
                DType dtype = DType::kF32);

/// The sum of the squares of df normal numbers; df > 0 need not be an integer.
Array chisquare(const KeyOperand& key, const Operand& df, const Shape& shape = {}, DType dtype = DType::kF32);

/// Student's distribution with df degrees of freedom.
Array t(const KeyOperand& key, const Operand& df, const Shape& shape = {}, DType dtype = DType::kF32);

/// Integers, k with probability lam^k exp(-lam) / k!; -1 where lam is NaN. Throws DTypeError unless the dtype
/// is an integer dtype; lam is converted to f32.
Array poisson(const KeyOperand& key, const Operand& lam, const Shape& shape = {}, DType dtype = DType::kI32);

}  // namespace lockstep::random
