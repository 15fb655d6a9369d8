// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/sorting.h"

#include <bit>
#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/top_k.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep {
namespace {

using ops::Tracers;

/// x, or x in one dimension, and the axis counted from 0.
struct Along {
  Array x;
  std::int64_t axis;

  Along(std::string_view operation, const Operand& operand, std::optional<std::int64_t> given)
      : x(given ? operand.as_array() : ravel(operand)),
        axis(ops::axis_of(operation, given.value_or(0), x.ndim(), x.aval())) {}
};

Array places_like(const Array& x, std::int64_t axis) {
  return ir::lax::iota(x, place_dtype(x.shape()[static_cast<std::size_t>(axis)]), x.shape(), axis);
}

std::vector<Array> sorted_with_places(const Array& x, std::int64_t axis, bool descending) {
  const Array operands[] = {x, places_like(x, axis)};
  return ir::lax::sort(std::span<const Array>(operands), axis, 1, true, descending);
}

Array cumulated(const std::string& name, const ir::Primitive& kind, const Operand& x,
                const CumulativeOptions& options) {
  CallSiteScope here(x.site());
  const Along along(name, x, options.axis);
  return ops::run(name, fmt::format("{} {}", along.axis, options.reverse), {along.x}, [&](Tracers t) {
    const Array numbers =
        t[0].dtype() == DType::kBool ? ir::lax::convert_element_type(t[0], DType::kI32) : t[0];
    if (numbers.size() == 0) return numbers;
    return ir::lax::cumulative(kind, numbers, along.axis, options.reverse);
  });
}

/// x < y, or y alone is NaN; in the order in which sort has them.
Array comes_before(const Array& x, const Array& y) {
  if (is_complex(x.dtype())) {
    const Array a = ir::lax::real(x), b = ir::lax::real(y);
    const Array both_nan = ir::lax::logical_and(ir::lax::ne(a, a), ir::lax::ne(b, b));
    return ir::lax::logical_or(comes_before(a, b),
                               ir::lax::logical_and(ir::lax::logical_or(ir::lax::eq(a, b), both_nan),
                                                    comes_before(ir::lax::imag(x), ir::lax::imag(y))));
  }
  const Array less = ir::lax::lt(x, y);
  if (!is_floating(x.dtype())) return less;
  return ir::lax::logical_or(less, ir::lax::logical_and(ir::lax::eq(x, x), ir::lax::ne(y, y)));
}

}  // namespace

Array sort(const Operand& x, SortOptions options) {
  CallSiteScope here(x.site());
  const Along along("sort", x, options.axis);
  return ops::run("sort", fmt::format("{} {}", along.axis, options.descending), {along.x}, [&](Tracers t) {
    return ir::lax::sort(t.first(1), along.axis, 1, true, options.descending).front();
  });
}
Array sort(const Operand& x, std::int64_t axis) { return sort(x, SortOptions{.axis = axis}); }

Array argsort(const Operand& x, SortOptions options) {
  CallSiteScope here(x.site());
  const Along along("argsort", x, options.axis);
  return ops::run("argsort", fmt::format("{} {}", along.axis, options.descending), {along.x},
                  [&](Tracers t) { return sorted_with_places(t[0], along.axis, options.descending)[1]; });
}
Array argsort(const Operand& x, std::int64_t axis) { return argsort(x, SortOptions{.axis = axis}); }

Array lexsort(const std::vector<Array>& keys, std::int64_t axis, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  if (keys.empty()) fail<ShapeError>("[lexsort] expected at least one key, got none{}", ops::at());
  const Aval aval = keys.front().aval();
  axis = ops::axis_of("lexsort", axis, aval.rank(), aval);
  return std::move(run_operation("lexsort", fmt::format("{}", axis), keys, [&](Tracers t) {
                     std::vector<Array> operands(t.rbegin(), t.rend());
                     operands.push_back(places_like(t[0], axis));
                     return std::vector<Array>{ir::lax::sort(std::span<const Array>(operands), axis,
                                                             static_cast<std::int64_t>(t.size()))
                                                   .back()};
                   }).front());
}

std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  CallSiteScope here(x.site());
  const Along along("top_k", x, axis);
  const auto d = static_cast<std::size_t>(along.axis);
  if (k < 0 || k > along.x.shape()[d]) {
    fail<ShapeError>("[top_k] expected 0 to {} elements of dimension {} of {}, got {}{}", along.x.shape()[d],
                     along.axis, to_string(along.x.aval()), k, ops::at());
  }
  const Array operands[] = {along.x};
  std::vector<Array> both =
      run_operation("top_k", fmt::format("{} {}", along.axis, k), operands, [&](Tracers t) {
        const std::int64_t size = along.x.shape()[d];
        if (k == 0 || place_dtype(size) != DType::kI32) {
          const Array with_places[] = {t[0], places_like(t[0], along.axis)};
          return ir::lax::first_sorted(std::span<const Array>(with_places), along.axis, k, 1, true);
        }
        const bool bools = t[0].dtype() == DType::kBool;
        std::vector<std::int64_t> swapped(static_cast<std::size_t>(t[0].ndim()));
        std::iota(swapped.begin(), swapped.end(), 0);
        std::swap(swapped[d], swapped.back());
        const auto swap = [&](const Array& a) {
          return swapped[d] == along.axis ? a : ir::lax::transpose(a, swapped);
        };
        std::vector<Array> found =
            ir::lax::top_k(swap(bools ? ir::lax::convert_element_type(t[0], DType::kU8) : t[0]), k);
        for (Array& each : found) each = swap(each);
        if (bools) found[0] = ir::lax::convert_element_type(found[0], DType::kBool);
        return found;
      });
  return {both[0], both[1]};
}

Array searchsorted(const Operand& sorted, const Operand& values, std::string_view side) {
  CallSiteScope here(sorted.site());
  if (side != "left" && side != "right")
    fail("[searchsorted] expected side \"left\" or \"right\", got \"{}\"{}", side, ops::at());
  if (sorted.shape().size() != 1) {
    fail<ShapeError>("[searchsorted] expected a sorted array of one dimension, got {}{}",
                     to_string(sorted.aval()), ops::at());
  }
  const ElementType types[] = {sorted.type(), values.type()};
  const ElementType type = promote("searchsorted", types);
  return ops::run(
      "searchsorted", std::string(side), {sorted.as_array(), values.as_array(type)}, [&](Tracers t) {
        const Array from = ops::convert(t[0], type), wanted = ops::convert(t[1], type);
        const Shape shape = wanted.shape();
        const std::int64_t n = from.size();
        auto constant = [&](std::int64_t value) {
          return ir::lax::full(wanted, ir::Scalar::of(value), place_dtype(n), shape);
        };
        // The position is in [low, high]; each step halves this range.
        Array low = constant(0), high = constant(n);
        Shape column = shape;
        column.push_back(1);
        for (int level = std::bit_width(static_cast<std::uint64_t>(n)); level > 0; --level) {
          const Array middle = ir::lax::add(low, ir::lax::div(ir::lax::sub(high, low), constant(2)));
          const Array there = ir::lax::gather(from, ir::lax::reshape(middle, column), {{}, {0}, {0}}, {1},
                                              GatherScatterMode::kClip);
          const Array behind = side == "left" ? comes_before(there, wanted)
                                              : ir::lax::logical_not(comes_before(wanted, there));
          const Array open = ir::lax::lt(low, high);
          low = ir::lax::select(ir::lax::logical_and(open, behind), ir::lax::add(middle, constant(1)), low);
          high = ir::lax::select(ir::lax::logical_and(open, ir::lax::logical_not(behind)), middle, high);
        }
        return low;
      });
}

namespace {

Array quantile_of(const std::string& name, const Operand& x, const Operand& q, double whole,
                  const QuantileOptions& options) {
  CallSiteScope here(x.site());
  static constexpr std::string_view kMethods[] = {"linear", "lower", "higher", "nearest", "midpoint"};
  if (std::ranges::find(kMethods, options.method) == std::end(kMethods)) {
    fail("[{}] expected the method linear, lower, higher, nearest or midpoint, got \"{}\"{}", name,
         options.method, ops::at());
  }
  if (q.shape().size() > 1) {
    fail<ShapeError>("[{}] expected a number or an array of one dimension as q, got {}{}", name,
                     to_string(q.aval()), ops::at());
  }
  const Along along(name, x, options.axis);
  const std::int64_t n = along.x.shape()[static_cast<std::size_t>(along.axis)];
  if (n == 0)
    fail<ShapeError>("[{}] {} has no elements to choose from{}", name, to_string(x.aval()), ops::at());
  const ElementType type = to_inexact(x.type());
  if (!is_floating(type.dtype))
    fail<DTypeError>("[{}] expected real numbers, got {}{}", name, to_string(x.aval()), ops::at());
  ElementType place_type = to_inexact(q.type());
  if (q.is_number() && type.dtype == DType::kF64) place_type.dtype = DType::kF64;
  const std::size_t rank = x.shape().size();
  const std::string key = fmt::format("{} {} {} {} {}", along.axis, options.axis.has_value(),
                                      options.keepdims, options.method, rank);
  return ops::run(name, key, {along.x, q.as_array(place_type)}, [&](Tracers t) {
    const Array values = ops::convert(t[0], {type.dtype, false});
    const Array ordered = moveaxis(ir::lax::sort(std::span(&values, 1), along.axis).front(), along.axis, -1);
    const DType exact = type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const Array place = ir::lax::convert_element_type(t[1], exact) * (static_cast<double>(n - 1) / whole);
    const Array low = floor(place), high = ceil(place);
    auto at = [&](const Array& where) {
      return ordered[{ellipsis, astype(clip(where, 0.0, static_cast<double>(n - 1)), place_dtype(n))}];
    };
    Array result;
    if (options.method == "lower") {
      result = at(low);
    } else if (options.method == "higher") {
      result = at(high);
    } else if (options.method == "nearest") {
      result = at(round(place));
    } else {
      const Array weight =
          astype(options.method == "midpoint" ? ir::lax::full_like(place, 0.5) : place - low, type.dtype);
      result = at(low) * (1 - weight) + at(high) * weight;
    }
    // A NaN is the last in order.
    Array last = ordered[{ellipsis, -1}];
    if (t[1].ndim() == 1) last = expand_dims(last, -1);
    result = where(isnan(last), stop_gradient(last), result);
    if (options.keepdims) {
      const bool many = t[1].ndim() == 1;
      if (many) result = moveaxis(result, -1, 0);
      if (options.axis) return expand_dims(result, along.axis + (many ? 1 : 0));
      Shape kept(rank + (many ? 1 : 0), 1);
      if (many) kept[0] = result.size();
      return reshape(result, kept);
    }
    return t[1].ndim() == 1 ? moveaxis(result, -1, 0) : result;
  });
}

}  // namespace

Array quantile(const Operand& x, const Operand& q, QuantileOptions options) {
  return quantile_of("quantile", x, q, 1, options);
}
Array percentile(const Operand& x, const Operand& q, QuantileOptions options) {
  return quantile_of("percentile", x, q, 100, options);
}
Array median(const Operand& x, QuantileOptions options) {
  options.method = "midpoint";
  return quantile_of("median", x, Operand(0.5, x.where()), 1, options);
}
Array median(const Operand& x, std::int64_t axis) { return median(x, QuantileOptions{.axis = axis}); }

Array cumsum(const Operand& x, CumulativeOptions options) {
  return cumulated("cumsum", ir::cumsum_p(), x, options);
}
Array cumsum(const Operand& x, std::int64_t axis) { return cumsum(x, CumulativeOptions{axis}); }
Array cumprod(const Operand& x, CumulativeOptions options) {
  return cumulated("cumprod", ir::cumprod_p(), x, options);
}
Array cumprod(const Operand& x, std::int64_t axis) { return cumprod(x, CumulativeOptions{axis}); }
Array cummax(const Operand& x, CumulativeOptions options) {
  return cumulated("cummax", ir::cummax_p(), x, options);
}
Array cummax(const Operand& x, std::int64_t axis) { return cummax(x, CumulativeOptions{axis}); }
Array cummin(const Operand& x, CumulativeOptions options) {
  return cumulated("cummin", ir::cummin_p(), x, options);
}
Array cummin(const Operand& x, std::int64_t axis) { return cummin(x, CumulativeOptions{axis}); }
Array cumlogsumexp(const Operand& x, CumulativeOptions options) {
  return cumulated("cumlogsumexp", ir::cumlogsumexp_p(), x, options);
}
Array cumlogsumexp(const Operand& x, std::int64_t axis) { return cumlogsumexp(x, CumulativeOptions{axis}); }

Array diff(const Operand& x, std::int64_t n, std::int64_t axis) {
  CallSiteScope here(x.site());
  const Along along("diff", x, axis);
  const auto d = static_cast<std::size_t>(along.axis);
  if (n < 0) fail<ShapeError>("[diff] expected 0 or more differences, got {}{}", n, ops::at());
  return ops::run("diff", fmt::format("{} {}", n, along.axis), {along.x}, [&](Tracers t) {
    Array result = t[0];
    for (std::int64_t i = 0; i < n && result.shape()[d] > 0; ++i) {
      const Shape shape = result.shape();
      Shape start(shape.size(), 0), limit = shape;
      start[d] = 1;
      limit[d] = shape[d] - 1;
      const Array later = ir::lax::slice(result, start, shape),
                  earlier = ir::lax::slice(result, Shape(shape.size(), 0), limit);
      result = result.dtype() == DType::kBool ? ir::lax::ne(later, earlier) : ir::lax::sub(later, earlier);
    }
    return result;
  });
}

}  // namespace lockstep
