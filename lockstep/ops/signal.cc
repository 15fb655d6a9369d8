// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/signal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/sort.h"

namespace lockstep {
namespace {

using ops::Tracers;

/// The dtype in which these meet, made inexact.
ElementType inexact_of(std::string_view operation, std::initializer_list<const Operand*> operands) {
  std::vector<ElementType> types;
  for (const Operand* each : operands) types.push_back(each->type());
  return to_inexact(promote(operation, types));
}

void check_vectors(std::string_view operation, const Operand& x, const Operand& y, bool same) {
  const Shape a = x.shape(), b = y.shape();
  if (a.size() == 1 && b.size() == 1 && a[0] > 0 && b[0] > 0 && (!same || a == b)) return;
  fail<ShapeError>("[{}] expected two vectors {}, got {} and {}{}", operation,
                   same ? "of one size" : "that are not empty", to_string(x.aval()), to_string(y.aval()),
                   ops::at());
}

Array sums_of_products(const char* operation, const Operand& x, const Operand& y, const std::string& mode,
                       bool convolves) {
  CallSiteScope here(x.site());
  check_vectors(operation, x, y, false);
  if (mode != "full" && mode != "same" && mode != "valid")
    fail("[{}] expected the mode full, same or valid, got \"{}\"{}", operation, mode, ops::at());
  const ElementType type = inexact_of(operation, {&x, &y});
  if (info(type.dtype).kind == DTypeKind::kComplex)
    fail<DTypeError>("[{}] expected real numbers, got {} and {}{}", operation, to_string(x.aval()),
                     to_string(y.aval()), ops::at());
  return ops::run(operation, mode, {x.as_array(), y.as_array()}, [&](Tracers t) {
    Array longer = ops::convert(t[0], type), shorter = ops::convert(t[1], type);
    const bool swapped = longer.size() < shorter.size();
    if (swapped) std::swap(longer, shorter);
    if (convolves) shorter = flip(shorter);
    const std::int64_t n = shorter.size(), m = longer.size();
    std::int64_t low = 0, high = 0;
    if (mode == "same") low = n / 2, high = n - n / 2 - 1;
    if (mode == "full") low = high = n - 1;
    const std::vector<std::int64_t> plain = {0, 1, 2};
    const Array sums = ir::lax::conv_general_dilated(
        reshape(longer, {1, 1, m}), reshape(shorter, {1, 1, n}),
        ir::ConvParams{{1}, {low}, {high}, {1}, {1}, plain, plain, plain, 1, 1});
    const Array vector = ravel(sums);
    return swapped && !convolves ? flip(vector) : vector;
  });
}

Array at_places(const Array& x, const Array& places) { return take(x, places); }

}  // namespace

Array convolve(const Operand& x, const Operand& y, const std::string& mode) {
  return sums_of_products("convolve", x, y, mode, true);
}
Array correlate(const Operand& x, const Operand& y, const std::string& mode) {
  return sums_of_products("correlate", x, y, mode, false);
}

Array interp(const Operand& x, const Operand& xp, const Operand& fp, InterpOptions options) {
  CallSiteScope here(x.site());
  check_vectors("interp", xp, fp, true);
  if (options.period && (options.left || options.right || *options.period == 0))
    fail("[interp] expected a period that is not 0, without left and right{}", ops::at());
  const ElementType type = inexact_of("interp", {&x, &xp}), of_values = inexact_of("interp", {&fp});
  const auto text = [](const std::optional<double>& number) {
    return number ? fmt::format("{}", *number) : std::string("none");
  };
  const std::string key = text(options.left) + " " + text(options.right) + " " + text(options.period);
  return ops::run("interp", key, {x.as_array(type), xp.as_array(), fp.as_array()}, [&](Tracers t) {
    Array at = ops::convert(t[0], type), points = ops::convert(t[1], type),
          values = ops::convert(t[2], of_values);
    if (options.period) {
      const double period = std::abs(*options.period);
      at = remainder(at, period);
      const Array pair[] = {remainder(points, period), values};
      const std::vector<Array> sorted = ir::lax::sort(std::span<const Array>(pair), 0);
      const std::int64_t n = points.size();
      const auto first = [](const Array& y) { return y[slice(0, 1)]; };
      const auto last = [n](const Array& y) { return y[slice(n - 1, n)]; };
      points = concatenate({last(sorted[0]) - period, sorted[0], first(sorted[0]) + period}, 0);
      values = concatenate({last(sorted[1]), sorted[1], first(sorted[1])}, 0);
    }
    const std::int64_t n = points.size();
    if (n == 1) {
      // With a single point: `left` before it, `right` after it, and its value at it.
      Array only = ops::broadcast(values[0], at.shape());
      if (options.left) only = where(at < points[0], *options.left, only);
      return options.right ? where(at > points[0], *options.right, only) : only;
    }
    const Array i = clip(searchsorted(points, at, "right"), 1, n - 1);
    const Array before = at_places(points, i - 1), value_before = at_places(values, i - 1);
    const Array step = at_places(points, i) - before, rise = at_places(values, i) - value_before;
    const double least = type.dtype == DType::kF64 ? std::ldexp(1.0, -104) : std::ldexp(1.0, -46);
    const Array flat = abs(step) <= least;
    Array found = where(flat, value_before, value_before + ((at - before) / where(flat, 1.0, step)) * rise);
    if (!options.period) {
      found = where(at < points[0], options.left ? full_like(values[0], *options.left) : values[0], found);
      found = where(at > points[n - 1], options.right ? full_like(values[0], *options.right) : values[n - 1],
                    found);
    }
    return found;
  });
}

Array unwrap(const Operand& x, UnwrapOptions options) {
  CallSiteScope here(x.site());
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  const std::int64_t axis = ops::axis_of("unwrap", options.axis, rank, x.aval());
  const double period = options.period, half = period / 2, discont = options.discont.value_or(half);
  const ElementType type = inexact_of("unwrap", {&x});
  return ops::run("unwrap", fmt::format("{} {} {}", axis, period, discont), {x.as_array()}, [&](Tracers t) {
    const Array y = ops::convert(t[0], type);
    const std::int64_t n = y.shape()[static_cast<std::size_t>(axis)];
    if (n < 2) return y;
    const std::vector<Array> parts = split_at(y, {1}, axis);
    const Array steps = parts[1] - split_at(y, {n - 1}, axis)[0];
    Array within = remainder(steps + half, period) - half;
    within = where((within == -half) & (steps > 0.0), half, within);
    const Array added = where(abs(steps) < discont, 0.0, within - steps);
    return concatenate({parts[0], parts[1] + cumsum(added, axis)}, axis);
  });
}

Array digitize(const Operand& x, const Operand& bins, bool right) {
  CallSiteScope here(x.site());
  if (bins.shape().size() != 1)
    fail<ShapeError>("[digitize] expected bins of one dimension, got {}{}", to_string(bins.aval()),
                     ops::at());
  const ElementType types[] = {x.type(), bins.type()};
  const ElementType type = promote("digitize", types);
  return ops::run("digitize", right ? "right" : "left", {x.as_array(type), bins.as_array()}, [&](Tracers t) {
    const std::int64_t n = t[1].size();
    if (n == 0) return zeros(t[0].shape(), DType::kI32);
    const char* side = right ? "left" : "right";
    const Array rising = searchsorted(t[1], t[0], side), falling = n - searchsorted(flip(t[1]), t[0], side);
    return astype(where(t[1][n - 1] >= t[1][0], rising, falling), DType::kI32);
  });
}

Array histogram_bin_edges(const Operand& x, const Bins& bins, HistogramOptions options) {
  CallSiteScope here(x.site());
  const ElementType type = inexact_of("histogram", {&x});
  if (const Array* edges = std::get_if<Array>(&bins)) {
    if (edges->ndim() != 1 || edges->size() < 2)
      fail<ShapeError>("[histogram] expected at least two edges, in one dimension, got {}{}",
                       to_string(edges->aval()), ops::at());
    return astype(*edges, type.dtype);
  }
  const std::int64_t count = std::get<std::int64_t>(bins);
  if (count < 1) fail<ShapeError>("[histogram] expected at least one bin, got {}{}", count, ops::at());
  if (options.range && options.range->first > options.range->second)
    fail("[histogram] expected a range from the smaller number to the larger, got {} to {}{}",
         options.range->first, options.range->second, ops::at());
  const std::string key = options.range
                              ? fmt::format("{} {} {}", count, options.range->first, options.range->second)
                              : fmt::format("{}", count);
  return ops::run("histogram_bin_edges", key, {x.as_array()}, [&](Tracers t) {
    const Array y = ops::convert(t[0], type);
    Array low = options.range  ? full_like(zeros({}, type.dtype), options.range->first)
                : y.size() > 0 ? min(y)
                               : zeros({}, type.dtype);
    Array high = options.range  ? full_like(zeros({}, type.dtype), options.range->second)
                 : y.size() > 0 ? max(y)
                                : ones({}, type.dtype);
    const Array same = low == high;
    low = where(same, low - 0.5, low);
    high = where(same, high + 0.5, high);
    const Array share = arange(count + 1, type.dtype) / static_cast<double>(count);
    // The ends are exactly those of the range.
    return where(arange(count + 1, DType::kI32) == count, high, low * (1.0 - share) + high * share);
  });
}

std::pair<Array, Array> histogram(const Operand& x, const Bins& bins, HistogramOptions options) {
  CallSiteScope here(x.site());
  if (options.weights && options.weights->shape() != x.shape()) {
    fail<ShapeError>("[histogram] expected weights of the shape of {}, got {}{}", to_string(x.aval()),
                     to_string(options.weights->aval()), ops::at());
  }
  const Array edges = histogram_bin_edges(x, bins, options);
  const ElementType type = inexact_of("histogram", {&x});
  const Array weights = options.weights ? *options.weights : ones(x.shape(), type.dtype);
  const Array operands[] = {x.as_array(type), edges, weights};
  const Array counts = run_operation("histogram", options.density ? "density" : "", operands, [&](Tracers t) {
    const Array y = ravel(ops::convert(t[0], type)), edges = t[1];
    const DType dtype = to_inexact(ElementType{t[2].dtype(), t[2].aval().weak_type}).dtype;
    const std::int64_t n = edges.size();
    Array place = searchsorted(edges, y, "right");
    place = where(y == edges[n - 1], n - 1, place);
    // Bin 0 is before the first edge, bin n after the last one.
    const Array all = segment_sum(astype(ravel(t[2]), dtype), place, n + 1);
    Array counts = all[slice(1, n)];
    if (options.density) counts = counts / (edges[slice(1, n)] - edges[slice(0, n - 1)]) / sum(counts);
    return std::vector<Array>{counts};
  })[0];
  return {counts, edges};
}

Array isin(const Operand& x, const Operand& values, bool invert) {
  CallSiteScope here(x.site());
  const ElementType types[] = {x.type(), values.type()};
  const ElementType type = promote("isin", types);
  return ops::run("isin", invert ? "not" : "", {x.as_array(type), values.as_array(type)}, [&](Tracers t) {
    const Array among = expand_dims(ops::convert(t[0], type), -1) == ravel(ops::convert(t[1], type));
    const Array found = lockstep::any(among, -1);
    return invert ? logical_not(found) : found;
  });
}

}  // namespace lockstep
