// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Normalizations. Operands of f16, bf16 and 8 bits are computed in f32, and the result is rounded once.
namespace lockstep::nn {

/// (x - mean) / sqrt(variance + epsilon), along the axis (jax.nn.standardize).
Array standardize(const Operand& x, Axes axis = -1, double epsilon = 1e-5);

/// standardize along the last dimension, times scale, plus bias. scale and bias have that dimension's size.
Array layer_norm(const Operand& x, const Operand& scale = 1.0, const Operand& bias = 0.0,
                 double epsilon = 1e-5);

/// Features, the last dimension, in num_groups groups of equal size: each group of each example (the first
/// dimension) is standardized over all its spatial dimensions, then multiplied by scale, plus bias, which
/// have the size of features. x is [batch, spatial..., features]. Throws ShapeError unless num_groups divides
/// the features. (Wu and He, "Group Normalization", 2018.)
Array group_norm(const Operand& x, std::int64_t num_groups, const Operand& scale = 1.0,
                 const Operand& bias = 0.0, double epsilon = 1e-6);

/// x / sqrt(mean(x²) + epsilon) along the last dimension, times scale.
Array rms_norm(const Operand& x, const Operand& scale = 1.0, double epsilon = 1e-6);

}  // namespace lockstep::nn
