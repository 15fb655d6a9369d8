// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// Activation functions, with jax.nn's names. Integers are converted to a floating dtype first (to_inexact).
namespace lockstep::nn {

using lockstep::logsumexp;
using lockstep::sigmoid;

/// max(x, 0), for any dtype. The derivative at 0 is 0.
Array relu(const Operand& x);

/// log(1 + exp(x)).
Array softplus(const Operand& x);

/// x * sigmoid(x).
Array silu(const Operand& x);

/// x where x >= 0, negative_slope * x elsewhere.
Array leaky_relu(const Operand& x, double negative_slope = 0.01);

/// x where x > 0, alpha * (exp(x) - 1) elsewhere.
Array elu(const Operand& x, double alpha = 1.0);

/// x * Φ(x), where Φ is the cumulative normal distribution; `approximate` uses a formula with tanh.
Array gelu(const Operand& x, bool approximate = true);

/// min(max(x, 0), 6), a floating number. The derivatives at 0 and at 6 are 0.
Array relu6(const Operand& x);

/// elu with a scale that keeps mean and variance from layer to layer (Klambauer and others, 2017).
Array selu(const Operand& x);

/// x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere.
Array celu(const Operand& x, double alpha = 1.0);

/// soft_sign: x / (1 + |x|). log_sigmoid: log(sigmoid(x)). hard_tanh: x clipped to [-1, 1]. hard_sigmoid:
/// relu6(x + 3) / 6. hard_silu: x * hard_sigmoid(x). mish: x * tanh(softplus(x)).
Array soft_sign(const Operand& x);
Array log_sigmoid(const Operand& x);
Array hard_tanh(const Operand& x);
Array hard_sigmoid(const Operand& x);
Array hard_silu(const Operand& x);
Array mish(const Operand& x);

/// (x + sqrt(x² + b)) / 2.
Array squareplus(const Operand& x, double b = 4.0);

/// sparse_plus: 0 for x <= -1, x for x >= 1, (x + 1)² / 4 between. sparse_sigmoid: its derivative.
Array sparse_plus(const Operand& x);
Array sparse_sigmoid(const Operand& x);

/// The first half of x along the axis, times sigmoid of the second half. Throws ShapeError if the size is
/// odd.
Array glu(const Operand& x, std::int64_t axis = -1);

/// softmax: exp(x) / sum(exp(x)) along the axis, computed without overflow. log_softmax: its logarithm.
Array softmax(const Operand& x, Axes axis = -1);
Array log_softmax(const Operand& x, Axes axis = -1);

}  // namespace lockstep::nn
