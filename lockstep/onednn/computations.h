// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collectives/ffi_call.h"
#include "lockstep/onednn/onednn.h"

// The computations, for any way to run pieces of them at once.
namespace lockstep::onednn {

using collectives::ForEach;

/// The result of a convolution for which `computes` is true. Throws Error if it is not.
void convolve(const Convolution& convolution, const float* lhs, const float* rhs, float* result,
              const ForEach& for_each);

/// How lhsᵀ rhs is computed: in pieces of the rows of the result, or of its columns, or as the transpose of
/// rhsᵀ lhs in pieces of the rows of the result.
enum class ProductForm { kRows, kColumns, kTransposed };

/// The fastest, as benchmarks/products_on_cpus measured it.
ProductForm form_of_product(std::int64_t m, std::int64_t n, std::int64_t k);

/// The product of [n, m], transposed, and [n, k], for which `computes_product` is true. Throws Error if it is
/// not.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* lhs, const float* rhs,
              float* result, const ForEach& for_each, ProductForm form);

/// The operands of ir::lax::ragged_dot: x is [rows, k], y [groups, k, n] or, transposed, [groups, n, k].
struct Ragged {
  std::int64_t rows, k, n, groups;
  const float *x, *y;
  const std::int32_t* group;  ///< of each row
};
void ragged_dot(const Ragged& operands, bool transposed, float* result, const ForEach& for_each);

/// The same of ragged_contracting_dot, where y is [rows, n].
void ragged_contracting_dot(const Ragged& operands, float* result, const ForEach& for_each);

/// Attention (lockstep/transforms/attention_programs.h). It is computed in blocks that stay in a core's
/// cache: no array of all scores exists.
struct Attention {
  std::int64_t batch, queries, keys, heads, key_heads, features;
  float scale;
  std::int64_t left = -1, right = -1;  ///< how many places before and after its own a query sees; -1: all
};
/// Elements that scores share: an array whose dimensions repeat to [batch, heads, queries, keys].
template <class T>
struct Terms {
  Terms() = default;
  /// `sizes`: those of the four dimensions, each 1 or the scores'.
  Terms(T* data, const std::int64_t* sizes) : data(data) {
    for (int d = 3; d >= 0; --d) {
      strides[d] = sizes[d] == 1 ? 0 : elements;
      elements *= sizes[d];
    }
  }
  T* at(std::int64_t example, std::int64_t head, std::int64_t query) const {
    return data + example * strides[0] + head * strides[1] + query * strides[2];
  }

  T* data = nullptr;  ///< null: there are none
  std::int64_t elements = 1;
  std::int64_t strides[4] = {};  ///< from one element to the next; 0 where the size is 1
};

struct AttentionOperands {
  const float *query, *key, *value;
  const std::int32_t* lengths = nullptr;  ///< of each example, the number of keys that count; null: all
  Terms<const bool> mask = {};
  Terms<const float> bias = {};
};
void attend(const Attention& attention, const AttentionOperands& operands, float* result, float* logs,
            const ForEach& for_each);

struct AttentionResidual {
  AttentionOperands operands;
  const float *result, *logs;
};
/// A bias whose cotangent is wanted (`of_bias`) has more than one example or head, or there is only one: the
/// threads that add to it have other examples or heads.
void attend_backward(const Attention& attention, const AttentionResidual& residual, const float* cotangent,
                     float* of_query, float* of_key, float* of_value, const Terms<float>& of_bias,
                     const ForEach& for_each);

}  // namespace lockstep::onednn
