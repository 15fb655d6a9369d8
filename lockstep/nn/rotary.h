// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/ops/operand.h"

namespace lockstep::nn {

struct RotaryOptions {
  double base = 10000;                  ///< the slowest pair turns about 1 / base radians from row to row
  std::optional<Array> positions = {};  ///< of the rows: [rows] or [batch, rows]; by default 0, 1, 2, …
};

/// Rotary position embedding, for the queries and the keys of an attention: x is [batch, rows, heads,
/// features] of a floating dtype, and so is the result. Feature i of the first half of the features and
/// feature i of the second half are a point of the plane, which is turned by position * base^(-2i / features)
/// radians. So the product of a query and a key depends on the distance of their rows. The angles are
/// computed in f32 (of f64: in f64).
///
/// Throws ShapeError unless x has four dimensions and an even number of features, and for positions of
/// another shape; DTypeError for an x that is not floating; Error for a base that is not above 0.
///
/// Source: Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021).
Array rotary_embedding(const Operand& x, const RotaryOptions& options = {});

}  // namespace lockstep::nn
