// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/statistics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape.h"

namespace lockstep {
namespace {

using ops::Tracers;

template <class Compose>
Array composed(const std::string& name, const Operand& x, const Axes& axis, bool keepdims, Compose compose,
               double ddof = 0) {
  CallSiteScope here(x.site());
  std::string axes = axis.axes() ? fmt::format("[{}]", fmt::join(*axis.axes(), ",")) : "all";
  return ops::run(name, fmt::format("axes={} keepdims={} ddof={}", axes, keepdims, ddof), {x.as_array()},
                  [&](Tracers t) { return compose(t[0]); });
}

template <class Compose>
Array composed(const std::string& name, const Operand& x, const ReduceOptions& options, Compose compose) {
  return composed(name, x, options.axis, options.keepdims, compose);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// x with NaN replaced by the value, or by the largest number of a dtype without infinities.
Array without_nan(const Array& x, double value) {
  if (!is_inexact(x.dtype())) return x;
  const FInfo limits = finfo(real_dtype(x.dtype()));
  if (std::isinf(value) && !limits.has_infinity) value = std::copysign(limits.max, value);
  return where(isnan(x), value, x);
}

Array present(const Array& x) { return astype(!isnan(x), x.dtype()); }

/// `reduced` if there was a number, NaN if all elements were NaN.
Array extreme(const Array& x, const ReduceOptions& options, const Array& reduced) {
  if (!is_inexact(x.dtype())) return reduced;
  return where(all(isnan(x), options), std::numeric_limits<double>::quiet_NaN(), reduced);
}

/// The function of x in f32 or wider, in the dtype that means of x have.
template <class F>
Array in_wide(const Array& given, F compute) {
  const ElementType type = to_inexact({given.dtype(), given.aval().weak_type});
  const Array result = compute(ops::widened(ops::convert(given, type)));
  return size_of(type.dtype) < 4 ? astype(result, type.dtype) : result;
}

Array floating(const Array& x) { return astype(x, to_inexact({x.dtype(), x.aval().weak_type}).dtype); }

Array mean_of_numbers(const Array& x, const ReduceOptions& options) {
  return sum(without_nan(x, 0), options) / sum(present(x), options);
}

Array variance_of_numbers(const Array& x, const VarianceOptions& options) {
  // An infinity less the mean may be NaN, which counts.
  Array centered = where(isnan(x), 0, x - mean_of_numbers(x, {options.axis, true}));
  Array count = sum(real(present(x)), {options.axis, options.keepdims}) - options.ddof;
  Array value = sum(ops::squared_size(centered), {options.axis, options.keepdims}) / count;
  return where(count > 0, value, std::numeric_limits<double>::quiet_NaN());
}

Array nan_arg(const std::string& name, const Operand& x, std::optional<std::int64_t> axis, double worst) {
  return composed(name, x, axis ? Axes(*axis) : Axes(), false, [&](const Array& x) {
    if (!is_inexact(x.dtype())) return worst < 0 ? argmax(x, axis) : argmin(x, axis);
    Array filled = without_nan(x, worst);
    Array place = worst < 0 ? argmax(filled, axis) : argmin(filled, axis);
    return where(all(isnan(x), {axis ? Axes(*axis) : Axes()}), -1, place);
  });
}

}  // namespace

Array nansum(const Operand& x, ReduceOptions options) {
  return composed("nansum", x, options, [&](const Array& x) { return sum(without_nan(x, 0), options); });
}
Array nanprod(const Operand& x, ReduceOptions options) {
  return composed("nanprod", x, options, [&](const Array& x) { return prod(without_nan(x, 1), options); });
}
Array nanmean(const Operand& x, ReduceOptions options) {
  return composed("nanmean", x, options, [&](const Array& x) {
    return in_wide(x, [&](const Array& wide) { return mean_of_numbers(wide, options); });
  });
}
Array nanmax(const Operand& x, ReduceOptions options) {
  return composed("nanmax", x, options, [&](const Array& x) {
    return extreme(x, options, max(without_nan(x, -kInfinity), options));
  });
}
Array nanmin(const Operand& x, ReduceOptions options) {
  return composed("nanmin", x, options, [&](const Array& x) {
    return extreme(x, options, min(without_nan(x, kInfinity), options));
  });
}
Array nanvar(const Operand& x, VarianceOptions options) {
  return composed(
      "nanvar", x, options.axis, options.keepdims,
      [&](const Array& x) {
        return in_wide(x, [&](const Array& wide) { return variance_of_numbers(wide, options); });
      },
      options.ddof);
}
Array nanstd(const Operand& x, VarianceOptions options) {
  return composed(
      "nanstd", x, options.axis, options.keepdims,
      [&](const Array& x) {
        return in_wide(x, [&](const Array& wide) { return sqrt(variance_of_numbers(wide, options)); });
      },
      options.ddof);
}

Array nanargmax(const Operand& x, std::optional<std::int64_t> axis) {
  return nan_arg("nanargmax", x, axis, -kInfinity);
}
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis) {
  return nan_arg("nanargmin", x, axis, kInfinity);
}

Array ptp(const Operand& x, ReduceOptions options) {
  return composed("ptp", x, options, [&](const Array& x) { return max(x, options) - min(x, options); });
}

Array count_nonzero(const Operand& x, ReduceOptions options) {
  return composed("count_nonzero", x, options,
                  [&](const Array& x) { return sum(astype(x != 0, DType::kI32), options); });
}

Array average(const Operand& x, ReduceOptions options) { return mean(x, options); }

Array average(const Operand& x, const Operand& weights, ReduceOptions options) {
  CallSiteScope here(x.site());
  const Shape shape = x.shape();
  std::vector<std::int64_t> axes;
  for (std::int64_t axis : options.axis.axes().value_or(axes))
    axes.push_back(ops::axis_of("average", axis, x.aval().rank(), x.aval()));
  Shape along, spread(shape.size(), 1);
  for (std::int64_t axis : axes) {
    along.push_back(shape[static_cast<std::size_t>(axis)]);
    spread[static_cast<std::size_t>(axis)] = along.back();
  }
  const bool of_axes = !axes.empty() && weights.shape() == along && along != shape;
  if (!of_axes && weights.shape() != shape) {
    fail<ShapeError>(
        "[average] weights {} do not fit {}{}; expected one for each element, or, with an axis, for each "
        "element along it, of shape {}",
        to_string(weights.aval()), to_string(x.aval()), ops::at(), to_string(axes.empty() ? shape : along));
  }
  Array w = weights.as_array();
  if (of_axes) {
    std::vector<std::int64_t> order(axes.size());  // those of the weights by the dimensions of x
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int64_t i) { return axes[static_cast<std::size_t>(i)]; });
    w = reshape(transpose(w, order), spread);
  }
  const Array total = sum(w, {options.axis, options.keepdims});
  return sum(x.as_array() * w, options) / total;
}

Array cov(const Operand& x, double ddof) {
  return composed(
      "cov", x, {}, false,
      [&](const Array& given) {
        Array x = floating(given);
        if (x.ndim() > 2 || x.ndim() == 0) {
          fail<ShapeError>("[cov] expected a vector or a matrix, got {}{}", to_string(x.aval()), ops::at());
        }
        const bool single = x.ndim() == 1;
        if (single) x = reshape(x, {1, -1});
        Array centered = x - mean(x, {.axis = 1, .keepdims = true});
        const double count = std::max(static_cast<double>(x.shape()[1]) - ddof, 0.0);
        Array products = matmul(centered, conj(transpose(centered))) / count;
        return single ? reshape(products, {}) : products;
      },
      ddof);
}

Array corrcoef(const Operand& x) {
  return composed("corrcoef", x, {}, false, [&](const Array& x) {
    Array c = cov(x);
    if (c.ndim() == 0) return c / c;
    const std::int64_t n = c.shape()[0];
    const Array diagonal = sqrt(real(sum(where(eye(n, n, DType::kBool), c, 0), 1)));
    Array scaled = c / reshape(diagonal, {n, 1}) / reshape(diagonal, {1, n});
    if (!is_complex(c.dtype())) return clip(scaled, -1.0, 1.0);
    return complex(clip(real(scaled), -1.0, 1.0), clip(imag(scaled), -1.0, 1.0));
  });
}

}  // namespace lockstep
