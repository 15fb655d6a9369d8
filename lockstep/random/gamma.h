#pragma once

#include "lockstep/random/random.h"

/// The gamma distribution and those made of it, with the numbers of jax.random to a few units in the last
/// place: each element has a key of its own and rejects what it draws until one fits, all in one loop.
///
/// The result has the shape given, to which the parameters broadcast (ShapeError otherwise); without one
/// theirs. It has the dtype given, a floating one (DTypeError otherwise), which the parameters are converted
/// to. It has derivatives in the parameters, forwards and backwards, as of a sample that moves with them:
/// by the series and the continued fraction of the incomplete gamma function, as in JAX.
namespace lockstep::random {

/// Of density x^(a - 1) exp(-x) / gamma(a), a > 0. For small a the numbers are so small that many are 0;
/// loggamma gives the logarithms of the same draws, which are not.
Array gamma(const Operand& key, const Operand& a, const Shape& shape = {}, DType dtype = DType::kF32);
Array loggamma(const Operand& key, const Operand& a, const Shape& shape = {}, DType dtype = DType::kF32);

/// Of density proportional to x^(a - 1) (1 - x)^(b - 1) in [0, 1].
Array beta(const Operand& key, const Operand& a, const Operand& b, const Shape& shape = {},
           DType dtype = DType::kF32);

/// Positive numbers along the last dimension whose sum is 1, of density proportional to the product of
/// x^(alpha - 1). `shape` is that of the other dimensions. Throws ShapeError where alpha is a scalar.
Array dirichlet(const Operand& key, const Operand& alpha, const Shape& shape = {}, DType dtype = DType::kF32);

/// The sum of the squares of df normal numbers; df > 0 may have a fraction.
Array chisquare(const Operand& key, const Operand& df, const Shape& shape = {}, DType dtype = DType::kF32);

/// Student's distribution with df degrees of freedom.
Array t(const Operand& key, const Operand& df, const Shape& shape = {}, DType dtype = DType::kF32);

/// Whole numbers, k with probability lam^k exp(-lam) / k!; -1 where lam is NaN. Of an integer dtype
/// (DTypeError otherwise); lam is converted to f32.
Array poisson(const Operand& key, const Operand& lam, const Shape& shape = {}, DType dtype = DType::kI32);

}  // namespace lockstep::random
