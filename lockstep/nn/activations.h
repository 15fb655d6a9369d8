#pragma once

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

/// x * Φ(x), with Φ approximated through tanh.
Array gelu(const Operand& x);

/// exp(x) over its sum along the axis, and its logarithm; without overflow.
Array softmax(const Operand& x, Axes axis = -1);
Array log_softmax(const Operand& x, Axes axis = -1);

}  // namespace lockstep::nn
