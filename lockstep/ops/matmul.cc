// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matmul.h"

#include <fmt/ranges.h>

#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/ragged_dot.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;

/// The dimension of the right operand that is summed over.
std::int64_t summed(const Aval& right) { return std::max<std::int64_t>(right.rank() - 2, 0); }

void check_contraction(std::string_view operation, const Aval& x, const Aval& y) {
  const std::int64_t left = x.shape.back(), right = y.shape[static_cast<std::size_t>(summed(y))];
  if (left != right) {
    fail<ShapeError>(
        "[{}] shapes {} and {} do not fit: dimension {} of the first has size {}, dimension {} of the "
        "second has size {}{}; they are summed over and must be equal",
        operation, to_string(x), to_string(y), x.rank() - 1, left, summed(y), right, ops::at());
  }
}

/// With operands of one dtype.
template <class Compose>
Array product(const std::string& name, const Operand& x, const Operand& y, Compose compose,
              const DotOptions& options = {}) {
  const ElementType types[] = {x.type(), y.type()};
  const ElementType type = promote(name, types);
  return ops::run(name, std::string(lockstep::name(type.dtype)) + ops::key_of(options),
                  {x.as_array(), y.as_array()},
                  [&](Tracers t) { return compose(ops::convert(t[0], type), ops::convert(t[1], type)); });
}

Array batched(const Array& x, const Array& y, const DotOptions& options) {
  const Aval left = x.aval(), right = y.aval();
  const std::int64_t batch_left = std::max<std::int64_t>(left.rank() - 2, 0), batch_right = summed(right);
  if (batch_left == 0 && batch_right > 0) {
    // (i k) (b k j) → (i b j), or of a vector (b j).
    Array result = ops::dot_general(x, y, {{left.rank() - 1}, {batch_right}, {}, {}}, options);
    if (left.rank() == 1) return result;
    std::vector<std::int64_t> order(static_cast<std::size_t>(batch_right));
    std::iota(order.begin(), order.end(), 1);
    order.insert(order.end(), {0, batch_right + 1});
    return ir::lax::transpose(result, order);
  }
  if (batch_right == 0) return ops::dot_general(x, y, {{left.rank() - 1}, {summed(right)}, {}, {}}, options);
  Aval batches[] = {left, right};
  for (Aval& aval : batches) aval.shape.resize(aval.shape.size() - 2);
  const Shape batch = ops::broadcast_shapes("matmul", batches);
  auto spread = [&](const Array& array) {
    Shape shape = batch;
    shape.insert(shape.end(), array.shape().end() - 2, array.shape().end());
    return ops::broadcast(array, shape);
  };
  std::vector<std::int64_t> dimensions(batch.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  const auto n = static_cast<std::int64_t>(batch.size());
  return ops::dot_general(spread(x), spread(y), {{n + 1}, {n}, dimensions, dimensions}, options);
}

}  // namespace

Array ops::dot_general(const Array& x, const Array& y, ir::DotGeneralParams params,
                       const DotOptions& options) {
  params.preferred_element_type = options.preferred_element_type;
  params.precision = ir::precision_text(options.precision);
  if (x.dtype() != DType::kBool || options.preferred_element_type)
    return ir::lax::dot_general(x, y, std::move(params));
  // Counts in f32 may be rounded, but never to 0.
  auto count = [](const Array& array) { return ir::lax::convert_element_type(array, DType::kF32); };
  const Array sum = ir::lax::dot_general(count(x), count(y), std::move(params));
  return ir::lax::ne(sum, ir::lax::full_like(sum, 0));
}

std::string ops::key_of(const DotOptions& options) {
  std::string key;
  if (options.preferred_element_type) key += fmt::format(" to {}", name(*options.preferred_element_type));
  if (const auto precision = ir::precision_text(options.precision)) key += " " + *precision;
  return key;
}

Array matmul(const Operand& x, const Operand& y, const DotOptions& options) {
  CallSiteScope here(x.site());
  if (x.shape().empty() || y.shape().empty()) {
    fail<ShapeError>(
        "[matmul] expected vectors, matrices or stacks of them, got {} and {}{}; multiply by a scalar with *",
        to_string(x.aval()), to_string(y.aval()), ops::at());
  }
  check_contraction("matmul", x.aval(), y.aval());
  return product(
      "matmul", x, y, [&](const Array& left, const Array& right) { return batched(left, right, options); },
      options);
}

Array dot(const Operand& x, const Operand& y, const DotOptions& options) {
  CallSiteScope here(x.site());
  if (x.shape().empty() || y.shape().empty()) return multiply(x, y);
  check_contraction("dot", x.aval(), y.aval());
  auto compose = [&](const Array& left, const Array& right) {
    return ops::dot_general(left, right, {{left.aval().rank() - 1}, {summed(right.aval())}, {}, {}}, options);
  };
  return product("dot", x, y, compose, options);
}

Array tensordot(const Operand& x, const Operand& y, const std::vector<std::int64_t>& x_axes,
                const std::vector<std::int64_t>& y_axes, const DotOptions& options) {
  CallSiteScope here(x.site());
  ir::DotGeneralParams p;
  bool fit = x_axes.size() == y_axes.size();
  for (std::int64_t axis : x_axes)
    p.lhs_contracting.push_back(ops::axis_of("tensordot", axis, x.aval().rank(), x.aval()));
  for (std::int64_t axis : y_axes)
    p.rhs_contracting.push_back(ops::axis_of("tensordot", axis, y.aval().rank(), y.aval()));
  for (std::size_t i = 0; fit && i < p.lhs_contracting.size(); ++i) {
    fit = x.shape()[static_cast<std::size_t>(p.lhs_contracting[i])] ==
          y.shape()[static_cast<std::size_t>(p.rhs_contracting[i])];
  }
  if (!fit) {
    fail<ShapeError>(
        "[tensordot] axes [{}] of {} and [{}] of {} do not fit{}; expected the same number of axes in both, "
        "of equal sizes",
        fmt::join(x_axes, ","), to_string(x.aval()), fmt::join(y_axes, ","), to_string(y.aval()), ops::at());
  }
  const ElementType types[] = {x.type(), y.type()};
  const ElementType type = promote("tensordot", types);
  return ops::run("tensordot",
                  fmt::format("{} [{}] [{}]{}", name(type.dtype), fmt::join(p.lhs_contracting, ","),
                              fmt::join(p.rhs_contracting, ","), ops::key_of(options)),
                  {x.as_array(), y.as_array()}, [&](Tracers t) {
                    return ops::dot_general(ops::convert(t[0], type), ops::convert(t[1], type), p, options);
                  });
}

Array tensordot(const Operand& x, const Operand& y, std::int64_t axes, const DotOptions& options) {
  CallSiteScope here(x.site());
  if (axes < 0 || axes > x.aval().rank() || axes > y.aval().rank()) {
    fail<ShapeError>("[tensordot] {} axes are more than {} or {} has{}", axes, to_string(x.aval()),
                     to_string(y.aval()), ops::at());
  }
  std::vector<std::int64_t> left, right;
  for (std::int64_t i = 0; i < axes; ++i) {
    left.push_back(x.aval().rank() - axes + i);
    right.push_back(i);
  }
  return tensordot(x, y, left, right, options);
}

Array inner(const Operand& x, const Operand& y) {
  if (x.shape().empty() || y.shape().empty()) return multiply(x, y);
  return tensordot(x, y, {-1}, {-1});
}

Array vdot(const Operand& x, const Operand& y) {
  CallSiteScope here(x.site());
  return tensordot(ravel(conj(x)), ravel(y), 1);
}

Array kron(const Operand& x, const Operand& y) {
  CallSiteScope here(x.site());
  if (x.shape().size() != y.shape().size()) {
    fail<ShapeError>("[kron] expected the same number of dimensions, got {} and {}{}; reshape one",
                     to_string(x.aval()), to_string(y.aval()), ops::at());
  }
  return product("kron", x, y, [](const Array& left, const Array& right) {
    Shape wide, narrow, result;
    for (std::size_t d = 0; d < left.shape().size(); ++d) {
      wide.insert(wide.end(), {left.shape()[d], 1});
      narrow.insert(narrow.end(), {1, right.shape()[d]});
      result.push_back(left.shape()[d] * right.shape()[d]);
    }
    return reshape(multiply(reshape(left, wide), reshape(right, narrow)), result);
  });
}

Array outer(const Operand& x, const Operand& y) {
  CallSiteScope here(x.site());
  return product("outer", x, y, [](const Array& left, const Array& right) {
    return multiply(reshape(left, {-1, 1}), reshape(right, {1, -1}));
  });
}

namespace {

/// The product of rows and the matrices of their groups, which `groups_of` makes of the last operand.
Array product_of_groups(std::string_view name, std::string_view groups_are, const Operand& x,
                        const Operand& y, const Operand& groups, std::int64_t expected,
                        const std::function<Array(const Array&)>& groups_of) {
  const Shape a = x.shape(), b = y.shape();
  if (a.size() != 2 || b.size() != 3 || a[1] != b[1] || groups.shape() != Shape{expected}) {
    fail<ShapeError>("[{}] expected [m,k], [groups,k,n] and {}, got {}, {} and {}{}", name, groups_are,
                     to_string(x.aval()), to_string(y.aval()), to_string(groups.aval()), ops::at());
  }
  if (!is_integer(groups.type().dtype)) {
    fail<DTypeError>("[{}] expected integers as {}, got {}{}", name, groups_are, to_string(groups.aval()),
                     ops::at());
  }
  const ElementType types[] = {x.type(), y.type()};
  const ElementType type = promote(name, types);
  return ops::run(std::string(name), "", {x.as_array(type), y.as_array(type), groups.as_array()},
                  [&](Tracers t) {
                    return ir::lax::ragged_dot(ops::convert(t[0], type), ops::convert(t[1], type),
                                               groups_of(astype(t[2], DType::kI32)));
                  });
}

std::int64_t first_size(const Operand& x) { return x.shape().empty() ? -1 : x.shape()[0]; }

}  // namespace

Array ragged_dot(const Operand& x, const Operand& y, const Operand& group_sizes) {
  CallSiteScope here(x.site());
  return product_of_groups("ragged_dot", "[groups]", x, y, group_sizes, first_size(y),
                           [&](const Array& sizes) {
                             // A row's group is the number of groups that end before it.
                             const Array row = expand_dims(arange(first_size(x), DType::kI32), 1);
                             return sum(astype(row >= cumsum(sizes, 0), DType::kI32), 1);
                           });
}

Array grouped_matmul(const Operand& x, const Operand& y, const Operand& groups) {
  CallSiteScope here(x.site());
  return product_of_groups("grouped_matmul", "[m]", x, y, groups, first_size(x),
                           [](const Array& of_rows) { return of_rows; });
}

}  // namespace lockstep
