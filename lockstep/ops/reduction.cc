// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reduction.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;

/// The axes in ascending order, counted from 0, and quantities derived from them.
struct Plan {
  std::vector<std::int64_t> axes;
  Shape kept;  ///< the shape with reduced dimensions of size 1
  std::int64_t count = 1;
  bool keepdims = false;

  Plan(std::string_view operation, const Operand& x, const ReduceOptions& options)
      : keepdims(options.keepdims) {
    const Aval aval = x.aval();
    if (options.axis.axes()) {
      for (std::int64_t axis : *options.axis.axes())
        axes.push_back(ops::axis_of(operation, axis, aval.rank(), aval));
    } else {
      for (std::int64_t axis = 0; axis < aval.rank(); ++axis) axes.push_back(axis);
    }
    std::ranges::sort(axes);
    if (auto twice = std::ranges::adjacent_find(axes); twice != axes.end()) {
      fail<ShapeError>("[{}] axis {} is named twice{}", operation, *twice, ops::at());
    }
    kept = aval.shape;
    for (std::int64_t axis : axes) {
      count *= kept[static_cast<std::size_t>(axis)];
      kept[static_cast<std::size_t>(axis)] = 1;
    }
  }

  std::string key() const { return fmt::format("axes=[{}] keepdims={}", fmt::join(axes, ","), keepdims); }
  Array finished(const Array& reduced) const { return keepdims ? ir::lax::reshape(reduced, kept) : reduced; }

  /// `reduced` repeated over the dimensions that it was reduced over.
  Array spread(const Array& reduced, const Shape& shape) const {
    return ops::broadcast(ir::lax::reshape(reduced, kept), shape);
  }
};

template <class Compose>
Array reduction(const std::string& name, const Operand& x, const ReduceOptions& options, Compose compose,
                std::string key = "") {
  CallSiteScope here(x.site());
  Plan plan(name, x, options);
  return ops::run(name, plan.key() + key, {x.as_array()},
                  [&](Tracers t) { return plan.finished(compose(t[0], plan)); });
}

/// In which sums are computed, and of which they are.
struct SumTypes {
  DType computed, result;

  explicit SumTypes(DType dtype) : computed(dtype), result(dtype) {
    if (is_floating(dtype)) computed = at_least_f32(dtype);
    if (!is_inexact(dtype) && size_of(dtype) < 4) {
      computed = result = info(dtype).kind == DTypeKind::kUnsigned ? DType::kU32 : DType::kI32;
    }
  }
};

Array added_up(const std::string& name, const ir::Primitive& primitive, const Operand& x,
               const ReduceOptions& options) {
  return reduction(name, x, options, [&](const Array& x, const Plan& plan) {
    const bool weak = x.aval().weak_type;
    SumTypes types(x.dtype());
    return ops::convert(ir::lax::reduce(primitive, ops::convert(x, {types.computed, weak}), plan.axes),
                        {types.result, weak});
  });
}

Array extreme(const std::string& name, const ir::Primitive& primitive, const Operand& x,
              const ReduceOptions& options) {
  return reduction(name, x, options, [&](const Array& x, const Plan& plan) {
    if (plan.count == 0) {
      fail<ShapeError>("[{}] {} has no elements along axes [{}]{}", name, to_string(x.aval()),
                       fmt::join(plan.axes, ","), ops::at());
    }
    return ir::lax::reduce(primitive, x, plan.axes);
  });
}

Array truths(const std::string& name, const ir::Primitive& primitive, const Operand& x,
             const ReduceOptions& options) {
  return reduction(name, x, options, [&](const Array& x, const Plan& plan) {
    Array truth = x.dtype() == DType::kBool ? x : ir::lax::ne(x, ir::lax::full_like(x, 0));
    return ir::lax::reduce(primitive, truth, plan.axes);
  });
}

Array averaged(const Array& x, const Plan& plan, double ddof) {
  Array sum = ir::lax::reduce_sum(x, plan.axes);
  return ir::lax::div(sum, ir::lax::full_like(sum, static_cast<double>(plan.count) - ddof));
}

/// x in a dtype to compute means in, and the type that they are to have.
std::pair<Array, ElementType> inexact(const Array& x) {
  const ElementType type = to_inexact({x.dtype(), x.aval().weak_type});
  return {ops::convert(x, {SumTypes(type.dtype).computed, type.weak}), type};
}

Array variance(const std::string& name, const Operand& x, const VarianceOptions& options, bool root) {
  return reduction(
      name, x, {options.axis, options.keepdims},
      [&](const Array& given, const Plan& plan) {
        auto [x, given_type] = inexact(given);
        ElementType type = given_type;
        Array centered = ir::lax::sub(x, plan.spread(averaged(x, plan, 0), x.shape()));
        Array result = averaged(ops::squared_size(centered), plan, options.ddof);
        type.dtype = real_dtype(type.dtype);
        if (static_cast<double>(plan.count) <= options.ddof) {
          const Array never = ir::lax::full(result, ir::Scalar::of(false), DType::kBool, result.shape());
          result = ir::lax::select(never, result,
                                   ir::lax::full_like(result, std::numeric_limits<double>::quiet_NaN()));
        }
        return ops::convert(root ? ir::lax::sqrt(result) : result, type);
      },
      fmt::format(" ddof={}", options.ddof));
}

Array arg_reduction(const std::string& name, const ir::Primitive& primitive, const Operand& x,
                    std::optional<std::int64_t> axis) {
  CallSiteScope here(x.site());
  const Aval aval = x.aval();
  const Shape shape = axis ? aval.shape : Shape{aval.num_elements()};
  const std::int64_t along = axis ? ops::axis_of(name, *axis, aval.rank(), aval) : 0;
  if (shape[static_cast<std::size_t>(along)] == 0) {
    fail<ShapeError>("[{}] {} has no elements to choose from{}", name, to_string(aval), ops::at());
  }
  return ops::run(name, fmt::format("axis={} flat={}", along, !axis), {x.as_array()}, [&](Tracers t) {
    return ir::lax::apply1<Array>(
        primitive,
        ir::OpParams::of(ir::ArgParams{along, place_dtype(shape[static_cast<std::size_t>(along)])}),
        {ir::lax::reshape(t[0], shape)});
  });
}

ReduceOptions along(std::int64_t axis) { return {axis}; }
VarianceOptions variance_along(std::int64_t axis) { return {axis}; }

}  // namespace

Array sum(const Operand& x, ReduceOptions options) { return added_up("sum", ir::reduce_sum_p(), x, options); }
Array sum(const Operand& x, std::int64_t axis) { return sum(x, along(axis)); }
Array prod(const Operand& x, ReduceOptions options) {
  return added_up("prod", ir::reduce_prod_p(), x, options);
}
Array prod(const Operand& x, std::int64_t axis) { return prod(x, along(axis)); }
Array max(const Operand& x, ReduceOptions options) { return extreme("max", ir::reduce_max_p(), x, options); }
Array max(const Operand& x, std::int64_t axis) { return max(x, along(axis)); }
Array min(const Operand& x, ReduceOptions options) { return extreme("min", ir::reduce_min_p(), x, options); }
Array min(const Operand& x, std::int64_t axis) { return min(x, along(axis)); }
Array any(const Operand& x, ReduceOptions options) { return truths("any", ir::reduce_or_p(), x, options); }
Array any(const Operand& x, std::int64_t axis) { return any(x, along(axis)); }
Array all(const Operand& x, ReduceOptions options) { return truths("all", ir::reduce_and_p(), x, options); }
Array all(const Operand& x, std::int64_t axis) { return all(x, along(axis)); }

Array mean(const Operand& x, ReduceOptions options) {
  return reduction("mean", x, options, [](const Array& given, const Plan& plan) {
    auto [x, type] = inexact(given);
    return ops::convert(averaged(x, plan, 0), type);
  });
}
Array mean(const Operand& x, std::int64_t axis) { return mean(x, along(axis)); }

Array var(const Operand& x, VarianceOptions options) { return variance("var", x, options, false); }
Array var(const Operand& x, std::int64_t axis) { return var(x, variance_along(axis)); }
Array std_(const Operand& x, VarianceOptions options) { return variance("std", x, options, true); }
Array std_(const Operand& x, std::int64_t axis) { return std_(x, variance_along(axis)); }

Array logsumexp(const Operand& x, ReduceOptions options) {
  return reduction("logsumexp", x, options, [](const Array& given, const Plan& plan) {
    auto [x, type] = inexact(given);
    const Array size = ir::lax::stop_gradient(is_complex(x.dtype()) ? ir::lax::real(x) : x);
    Array largest = ir::lax::reduce_max(size, plan.axes);
    // An infinity minus itself is NaN.
    Array shift = ir::lax::select(ir::lax::is_finite(largest), largest, ir::lax::full_like(largest, 0));
    shift = ops::convert(shift, {x.dtype(), x.aval().weak_type});
    Array sum = ir::lax::reduce_sum(ir::lax::exp(ir::lax::sub(x, plan.spread(shift, x.shape()))), plan.axes);
    return ops::convert(ir::lax::add(ir::lax::log(sum), shift), type);
  });
}
Array logsumexp(const Operand& x, std::int64_t axis) { return logsumexp(x, along(axis)); }

Array argmax(const Operand& x, std::optional<std::int64_t> axis) {
  return arg_reduction("argmax", ir::argmax_p(), x, axis);
}
Array argmin(const Operand& x, std::optional<std::int64_t> axis) {
  return arg_reduction("argmin", ir::argmin_p(), x, axis);
}

}  // namespace lockstep
