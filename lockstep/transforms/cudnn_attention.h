// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/program/lowering.h"
#include "lockstep/transforms/nested_primitives.h"

/// Attention by cuDNN, which XLA's compiler for CUDA calls where a program has its custom call. The calls are
/// those of JAX's `implementation="cudnn"` (jax/_src/cudnn/fused_attention_stablehlo.py).
namespace lockstep::transforms {

/// Why cuDNN cannot compute this attention of whole sequences with operands of this dtype, for a message:
/// "its operands are f32, and cuDNN takes bf16 and f16"; empty if it can. It takes heads of at most
/// `max_features`. `is_differentiated`: the derivative needs it, or it is the derivative.
std::string why_not_cudnn(const AttentionParams& attention, bool is_differentiated, DType dtype,
                          std::int64_t max_features);

/// Whether mask and bias together are larger than each, in the one array of both that cuDNN takes: a mask of
/// examples and a bias of heads become one of both.
bool cudnn_repeats_terms(const AttentionParams& attention);

/// Writes an equation of attention_p that cuDNN can compute.
ir::Lowering::Names cudnn_attention(ir::Lowering& out, const ir::Equation& equation);

}  // namespace lockstep::transforms
