// SPDX-License-Identifier: Apache-2.0
// Array's members that are operations.

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"

namespace lockstep {
namespace {

ReduceOptions over(std::optional<std::int64_t> axis) {
  return axis ? ReduceOptions{.axis = *axis} : ReduceOptions();
}

}  // namespace

Array Array::astype(DType dtype, Where where) const { return lockstep::astype(Operand(*this, where), dtype); }
Array Array::reshape(const Shape& shape, Where where) const {
  return lockstep::reshape(Operand(*this, where), shape);
}
Array Array::ravel(Where where) const { return lockstep::ravel(Operand(*this, where)); }
Array Array::flatten(Where where) const { return ravel(where); }
Array Array::transpose(const std::vector<std::int64_t>& axes, Where where) const {
  return lockstep::transpose(Operand(*this, where), axes);
}
Array Array::T(Where where) const { return transpose({}, where); }
Array Array::squeeze(Where where) const { return lockstep::squeeze(Operand(*this, where)); }
Array Array::squeeze(const Axes& axis, Where where) const {
  return lockstep::squeeze(Operand(*this, where), axis);
}

Array Array::sum(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::sum(Operand(*this, where), over(axis));
}
Array Array::sum(const ReduceOptions& options, Where where) const {
  return lockstep::sum(Operand(*this, where), options);
}
Array Array::prod(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::prod(Operand(*this, where), over(axis));
}
Array Array::prod(const ReduceOptions& options, Where where) const {
  return lockstep::prod(Operand(*this, where), options);
}
Array Array::mean(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::mean(Operand(*this, where), over(axis));
}
Array Array::mean(const ReduceOptions& options, Where where) const {
  return lockstep::mean(Operand(*this, where), options);
}
Array Array::max(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::max(Operand(*this, where), over(axis));
}
Array Array::max(const ReduceOptions& options, Where where) const {
  return lockstep::max(Operand(*this, where), options);
}
Array Array::min(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::min(Operand(*this, where), over(axis));
}
Array Array::min(const ReduceOptions& options, Where where) const {
  return lockstep::min(Operand(*this, where), options);
}
Array Array::any(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::any(Operand(*this, where), over(axis));
}
Array Array::any(const ReduceOptions& options, Where where) const {
  return lockstep::any(Operand(*this, where), options);
}
Array Array::all(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::all(Operand(*this, where), over(axis));
}
Array Array::all(const ReduceOptions& options, Where where) const {
  return lockstep::all(Operand(*this, where), options);
}
Array Array::argmax(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::argmax(Operand(*this, where), axis);
}
Array Array::argmin(std::optional<std::int64_t> axis, Where where) const {
  return lockstep::argmin(Operand(*this, where), axis);
}
Array Array::dot(const Operand& other) const { return lockstep::dot(Operand(*this, other.where()), other); }

}  // namespace lockstep
