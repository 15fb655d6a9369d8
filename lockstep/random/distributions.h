// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/random/random.h"

/// More distributions of jax.random, made from JAX's uniform bits by JAX's formulas, so that they agree with
/// JAX's within a few units in the last place. u is uniform in [0, 1). Throw DTypeError unless the dtype is
/// floating.
namespace lockstep::random {

/// With mean 1: -log(1 - u).
Array exponential(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// With density exp(-|x|) / 2.
Array laplace(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// log(u / (1 - u)).
Array logistic(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// tan(pi * (u - 1/2)).
Array cauchy(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kF32);

/// With density b / x^(b + 1) for x >= 1.
Array pareto(const KeyOperand& key, const Operand& b, const Shape& shape = {}, DType dtype = DType::kF32);

/// scale * (-log(1 - u))^(1 / concentration).
Array weibull_min(const KeyOperand& key, const Operand& scale, const Operand& concentration,
                  const Shape& shape = {}, DType dtype = DType::kF32);

/// exp(sigma * normal).
Array lognormal(const KeyOperand& key, const Operand& sigma = 1.0, const Shape& shape = {},
                DType dtype = DType::kF32);

/// -1 or 1, with equal probability.
Array rademacher(const KeyOperand& key, const Shape& shape = {}, DType dtype = DType::kI32);

/// x with each element set to 0 with probability rate, and the others divided by 1 - rate. Throws Error for a
/// rate outside of [0, 1).
Array dropout(const KeyOperand& key, const Operand& x, double rate);

}  // namespace lockstep::random
