#include "lockstep/program/primitives/windowed.h"

#include <algorithm>
#include <numeric>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::rules {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace

bool WindowedDim::keeps_places() const {
  return size == count && stride == 1 && low == 0 && dilation == 1 && extent == 1;
}

ShardingRule::Factor WindowedDim::factor() const {
  if (keeps_places()) return {size};
  if (size == 0 || count == 0) return {.size = 1};
  const std::int64_t places = count * stride;
  std::int64_t divided = std::gcd(size, count);
  divided = places % dilation == 0 ? std::gcd(divided, places / dilation) : 1;
  return {.size = std::max<std::int64_t>(divided, 1),
          .exchanged = [*this](std::size_t operand, std::int64_t parts) {
            if (operand != 0) return Exchanged();
            return plan_windows(part_of_result(*this, parts).windows, parts, size / parts).exchanged;
          }};
}

LocalDim under_window(std::int64_t low, std::int64_t dilation, std::int64_t step, std::int64_t span) {
  const std::int64_t first = -floor_div(low, dilation);
  const std::int64_t before = first * dilation + low;  // 0 or less than the dilation
  const std::int64_t count = std::max<std::int64_t>(floor_div(span - 1 - before, dilation) + 1, 1);
  return {{first, step / dilation, count}, before, span - before - (count - 1) * dilation - 1};
}

LocalDim part_of_result(const WindowedDim& dim, std::int64_t parts) {
  const std::int64_t count = dim.count / parts;
  return under_window(dim.low, dim.dilation, count * dim.stride, (count - 1) * dim.stride + dim.extent);
}

std::pair<Value, Value> taken_along(const Value& x, std::size_t dimension, const Value& places) {
  const Shape& shape = x.aval().shape;
  const auto d = static_cast<std::int64_t>(dimension);
  GatherDimensionNumbers numbers = {{}, {d}, {d}};
  for (std::int64_t other = 0; other < static_cast<std::int64_t>(shape.size()); ++other)
    if (other != d) numbers.offset_dims.push_back(other);
  Shape sizes = shape;
  sizes[dimension] = 1;
  const std::int64_t count = places.aval().shape[0];
  const Value indices = lax::reshape(places, Shape{count, 1});
  const Value taken = lax::gather(x, indices, numbers, sizes, GatherScatterMode::kClip);
  const Value has = lax::internal::within(indices, {shape[dimension] - 1});
  return {taken, lax::broadcast_in_dim(has, taken.aval().shape, {d})};
}

}  // namespace lockstep::rules
