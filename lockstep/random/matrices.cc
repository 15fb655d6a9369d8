// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/matrices.h"

#include <algorithm>
#include <span>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/random/words.h"

namespace lockstep::random {
namespace {

/// The dimensions before the last `count`.
Shape batch_of(const Shape& shape, std::int64_t count) { return {shape.begin(), shape.end() - count}; }

}  // namespace

Array orthogonal(const KeyOperand& key, std::int64_t rows, const Shape& shape, DType dtype,
                 std::optional<std::int64_t> columns) {
  CallSiteScope here(key.site());
  const std::int64_t across = columns.value_or(rows);
  check_key("orthogonal", key);
  check_floating("orthogonal", dtype);
  check_shape("orthogonal", shape);
  check_shape("orthogonal", {rows, across});
  Shape whole = shape;
  whole.insert(whole.end(), {std::max(rows, across), std::min(rows, across)});
  if (num_elements(whole) == 0) {
    whole = shape;
    whole.insert(whole.end(), {rows, across});
    return zeros(whole, dtype);
  }
  // The signs of R's diagonal make Q the one of all decompositions, and so uniform.
  const linalg::QR qr = linalg::qr(normal(key, whole, dtype));
  const Array q = astype(qr.q * expand_dims(sign(diagonal(qr.r, 0, -2, -1)), -2), dtype);
  return rows < across ? swapaxes(q, -1, -2) : q;
}

Array multivariate_normal(const KeyOperand& key, const Operand& mean, const Operand& covariance,
                          std::optional<Shape> shape) {
  CallSiteScope here(key.site());
  check_key("multivariate_normal", key);
  const Shape &of_mean = mean.shape(), &of_covariance = covariance.shape();
  if (of_mean.empty() || of_covariance.size() < 2 ||
      Shape(of_covariance.end() - 2, of_covariance.end()) != Shape{of_mean.back(), of_mean.back()}) {
    fail<ShapeError>(
        "[random::multivariate_normal] expected a mean of [..., n] and a covariance of [..., n, n], got {} "
        "and {}{}",
        to_string(mean.aval()), to_string(covariance.aval()), ops::at());
  }
  const ElementType types[] = {mean.type(), covariance.type()};
  const DType dtype = to_inexact(promote("multivariate_normal", types)).dtype;
  check_floating("multivariate_normal", dtype);
  const Aval batches[] = {{dtype, batch_of(of_mean, 1), false, {}},
                          {dtype, batch_of(of_covariance, 2), false, {}}};
  const Shape least = ops::broadcast_shapes("random::multivariate_normal", batches);
  Shape whole = shape.value_or(least);
  const bool fits =
      whole.size() >= least.size() &&
      std::ranges::equal(least, std::span(whole).last(least.size()),
                         [](std::int64_t from, std::int64_t to) { return from == to || from == 1; });
  if (!fits) {
    fail<ShapeError>(
        "[random::multivariate_normal] expected a shape that mean and covariance broadcast to, {}, got {}{}",
        to_string(least), to_string(whole), ops::at());
  }
  whole.push_back(of_mean.back());
  const Array factor = linalg::cholesky(astype(covariance, dtype));
  const Array samples = expand_dims(normal(key, whole, dtype), -1);
  return astype(astype(mean, dtype) + squeeze(matmul(factor, samples), -1), dtype);
}

}  // namespace lockstep::random
