#pragma once

#include <cstdint>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/operand.h"
#include "lockstep/ops/reduction.h"

/// The functions of neural networks, with jax.nn's names. Whole numbers are made floating first.
namespace lockstep::nn {

using lockstep::logsumexp;
using lockstep::sigmoid;

/// max(x, 0), of any dtype; its derivative at 0 is 0.
Array relu(const Operand& x);

/// log(1 + exp(x)).
Array softplus(const Operand& x);

/// x * sigmoid(x).
Array silu(const Operand& x);

/// x, or negative_slope * x where x is below 0.
Array leaky_relu(const Operand& x, double negative_slope = 0.01);

/// x, or alpha * (exp(x) - 1) where x is not above 0.
Array elu(const Operand& x, double alpha = 1.0);

/// x * Φ(x), with Φ approximated through tanh, or exact.
Array gelu(const Operand& x, bool approximate = true);

/// relu up to 6; its derivative is 0 at both ends.
Array relu6(const Operand& x);

/// elu, scaled so that means and variances are kept (Klambauer and others, 2017).
Array selu(const Operand& x);

/// x, or alpha * (exp(x / alpha) - 1) where x is not above 0.
Array celu(const Operand& x, double alpha = 1.0);

/// x / (1 + |x|); log(sigmoid(x)); x within [-1, 1]; relu6(x + 3) / 6, and x times it; x * tanh(softplus(x)).
Array soft_sign(const Operand& x);
Array log_sigmoid(const Operand& x);
Array hard_tanh(const Operand& x);
Array hard_sigmoid(const Operand& x);
Array hard_silu(const Operand& x);
Array mish(const Operand& x);

/// (x + sqrt(x² + b)) / 2.
Array squareplus(const Operand& x, double b = 4.0);

/// 0 to -1, x from 1 on, (x + 1)² / 4 between; and its derivative.
Array sparse_plus(const Operand& x);
Array sparse_sigmoid(const Operand& x);

/// The first half of x along the axis, times sigmoid of the second. An odd size is a ShapeError.
Array glu(const Operand& x, std::int64_t axis = -1);

/// exp(x) over its sum along the axis, and its logarithm; without overflow.
Array softmax(const Operand& x, Axes axis = -1);
Array log_softmax(const Operand& x, Axes axis = -1);

}  // namespace lockstep::nn
