// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/interop/translation.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep::interop {
namespace {

using Integers = std::vector<std::int64_t>;

/// Where windows are: a number for each dimension.
struct Windows {
  Integers sizes, strides, low, high, base_dilations, window_dilations;

  Windows(const Call& call, std::size_t rank) {
    const Integers ones(rank, 1);
    sizes = call.numbers("window_dimensions", ones);
    strides = call.numbers("window_strides", ones);
    base_dilations = call.numbers("base_dilations", ones);
    window_dilations = call.numbers("window_dilations", ones);
    const Integers pads = call.numbers("padding", Integers(2 * rank, 0));
    for (const Integers* each : {&sizes, &strides, &base_dilations, &window_dilations})
      if (each->size() != rank || std::ranges::any_of(*each, [](std::int64_t n) { return n < 1; }))
        call.refuse("its windows do not have as many dimensions as its operands");
    if (pads.size() != 2 * rank) call.refuse("its padding is not a pair for each dimension");
    for (std::size_t d = 0; d < rank; ++d) {
      low.push_back(pads[2 * d]);
      high.push_back(pads[2 * d + 1]);
    }
  }

  /// The dimension of which each element becomes what those up to it make, and whether it goes from the last
  /// to the first: as JAX writes running sums.
  std::optional<std::pair<std::int64_t, bool>> running_dimension(const Shape& shape) const {
    const Integers ones(shape.size(), 1);
    if (strides != ones || base_dilations != ones || window_dilations != ones) return std::nullopt;
    std::optional<std::pair<std::int64_t, bool>> found;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t before = sizes[d] - 1;
      if (before == 0 && low[d] == 0 && high[d] == 0) continue;
      const bool ahead = low[d] == before && high[d] == 0, behind = low[d] == 0 && high[d] == before;
      if (found || sizes[d] != shape[d] || !(ahead || behind)) return std::nullopt;
      found = {static_cast<std::int64_t>(d), behind};
    }
    return found;
  }

  Padding padding() const {
    Padding pairs;
    for (std::size_t d = 0; d < low.size(); ++d) pairs.emplace_back(low[d], high[d]);
    return pairs;
  }
};

/// Windows by what the region says. Along each dimension windows of twice the size are made of two, and the
/// window of the wanted size of those whose sizes are its binary digits; elements keep their order in it.
std::vector<Array> windows_by_region(const Call& call) {
  const std::size_t count = call.operands.size() / 2;
  if (call.operands.size() != 2 * count || count == 0) call.refuse("it has a start for some arrays only");
  const auto rank = static_cast<std::size_t>(call.operand(0).ndim());
  const Windows windows(call, rank);
  Integers interior = windows.base_dilations;
  for (std::int64_t& between : interior) --between;
  std::vector<Array> arrays, starts;
  for (std::size_t i = 0; i < count; ++i) {
    arrays.push_back(
        ir::lax::pad(call.operand(i), call.operand(count + i), windows.low, windows.high, interior));
    starts.push_back(ir::lax::broadcast_in_dim(call.operand(count + i), call.result(i).shape, {}));
  }
  if (num_elements(call.result().shape) == 0) return starts;
  for (std::size_t d = rank; d-- > 0;) {
    const auto dimension = static_cast<std::int64_t>(d);
    const std::int64_t window = windows.sizes[d], distance = windows.window_dilations[d];
    const std::int64_t needed = (call.result().shape[d] - 1) * windows.strides[d] + 1;
    std::vector<Array> whole, doubled = arrays;
    std::int64_t length = arrays[0].shape()[d], covered = 0;  // of `doubled`; in `whole`
    for (std::int64_t size = 1; size <= window; size *= 2) {
      if ((window & size) != 0) {
        const std::vector<Array> next = sliced(doubled, dimension, covered * distance, needed);
        whole = covered == 0 ? next : combined(call, whole, next);
        covered += size;
      }
      if (2 * size > window) break;
      length -= size * distance;
      doubled = combined(call, sliced(doubled, dimension, 0, length),
                         sliced(doubled, dimension, size * distance, length));
    }
    arrays = sliced(whole, dimension, 0, call.result().shape[d], windows.strides[d]);
  }
  return combined(call, starts, arrays);
}

}  // namespace

std::vector<Array> reduce_window(const Call& call) {
  const Combining* combining = combining_of(call.region(0));
  if (call.operands.size() != 2 || combining == nullptr ||
      !is_neutral(*combining, call.constants[1], call.operand(0).dtype()))
    return windows_by_region(call);
  const Array& x = call.operand(0);
  const Windows windows(call, static_cast<std::size_t>(x.ndim()));
  if (const auto running = windows.running_dimension(x.shape()); running && combining->running != nullptr)
    return {ir::lax::cumulative(combining->running(), x, running->first, running->second)};
  if (combining->window == nullptr) return windows_by_region(call);
  return {ir::lax::reduce_window(combining->window(), x, windows.sizes, windows.strides, windows.padding(),
                                 windows.base_dilations, windows.window_dilations)};
}

/// Goes through the places of a window, from the first to the last, and keeps the one that the first region
/// selects; then each place gets the sources of the windows that selected it.
std::vector<Array> select_and_scatter(const Call& call) {
  const Array &x = call.operand(0), &source = call.operand(1);
  const Combining* adding = combining_of(call.region(1));
  if (adding == nullptr || std::string_view(adding->name) != "add")
    call.refuse("it scatters with something other than a sum");
  const auto rank = static_cast<std::size_t>(x.ndim());
  const Windows windows(call, rank);
  const Shape shape = source.shape();
  const Array start = ir::lax::broadcast_in_dim(call.operand(2), x.shape(), {});
  if (num_elements(shape) == 0) return {start};
  const Integers none(rank, 0);
  const bool padded = windows.low != none || windows.high != none;
  const auto zero = [&](DType dtype) { return ir::lax::full(x, ir::Scalar::of(0), dtype, {}); };
  const Array values = ir::lax::pad(x, zero(x.dtype()), windows.low, windows.high, none);
  // Places around the array are not selected.
  const Array inside = ir::lax::pad(ir::lax::full(x, ir::Scalar::of(true), DType::kBool, x.shape()),
                                    zero(DType::kBool), windows.low, windows.high, none);

  std::vector<Integers> places;
  Integers place(rank, 0);
  for (std::int64_t n = num_elements(windows.sizes); n > 0; --n) {
    places.push_back(place);
    for (std::size_t d = rank; d-- > 0;) {
      if (++place[d] < windows.sizes[d]) break;
      place[d] = 0;
    }
  }
  const auto at = [&](const Array& from, const Integers& first) {
    Integers limit;
    for (std::size_t d = 0; d < rank; ++d)
      limit.push_back(first[d] + (shape[d] - 1) * windows.strides[d] + 1);
    return ir::lax::slice(from, first, limit, windows.strides);
  };
  const auto number = [&](std::size_t i) {
    return ir::lax::full(x, ir::Scalar::of(static_cast<std::int64_t>(i)), DType::kI32, shape);
  };
  Array best = at(values, places[0]), which = number(0), found = at(inside, places[0]);
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Array here = at(values, places[i]);
    Array keeps = call.module.for_each_element(call.region(0), std::vector<Array>{best, here}).at(0);
    if (padded) {
      const Array candidate = at(inside, places[i]);
      keeps = ir::lax::logical_or(ir::lax::logical_not(candidate), ir::lax::logical_and(found, keeps));
      found = ir::lax::logical_or(found, candidate);
    }
    best = ir::lax::select(keeps, best, here);
    which = ir::lax::select(keeps, which, number(i));
  }

  Integers between = windows.strides;
  for (std::int64_t& each : between) --each;
  std::optional<Array> sum;
  const Array nothing = ir::lax::full(source, ir::Scalar::of(0), source.dtype(), shape);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Array part = ir::lax::select(ir::lax::eq(which, number(i)), source, nothing);
    Integers low, high;
    for (std::size_t d = 0; d < rank; ++d) {
      low.push_back(places[i][d] - windows.low[d]);
      high.push_back(x.shape()[d] - low[d] - ((shape[d] - 1) * windows.strides[d] + 1));
    }
    const Array spread = ir::lax::pad(part, zero(source.dtype()), low, high, between);
    sum = sum ? ir::lax::add(*sum, spread) : spread;
  }
  return {is_neutral(*adding, call.constants[2], source.dtype()) ? *sum : ir::lax::add(start, *sum)};
}

}  // namespace lockstep::interop
