// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/windowed.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/floor_div.h"

namespace lockstep::ir::rules {
namespace {

/// For devices whose windows begin `step` positions apart, the first one's at the first position of the
/// padded operand, and which together cover `span` positions.
LocalDim under_window(std::int64_t low, std::int64_t dilation, std::int64_t step, std::int64_t span) {
  const std::int64_t first = -floor_div(low, dilation);
  const std::int64_t before = first * dilation + low;  // 0 or less than the dilation
  const std::int64_t count = std::max<std::int64_t>(floor_div(span - 1 - before, dilation) + 1, 1);
  return {{first, step / dilation, count}, before, span - before - (count - 1) * dilation - 1};
}

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

LocalDim part_of_result(const WindowedDim& dim, std::int64_t parts) {
  const std::int64_t count = dim.count / parts;
  return under_window(dim.low, dim.dilation, count * dim.stride, (count - 1) * dim.stride + dim.extent);
}

ShardingRule windowed(std::span<const Aval> inputs, std::span<const Aval> outputs,
                      const std::vector<WindowedDim>& dims) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    rule.operands[0][d] = rule.results[0][d] = static_cast<int>(d);
    rule.factors.push_back(dims[d].factor());
  }
  return rule;
}

Value brought(Value x, const std::vector<WindowedDim>& dims, const PartPlaces& places,
              const std::optional<Value>& fill, std::vector<std::int64_t>& low,
              std::vector<std::int64_t>& high) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto factor = static_cast<int>(d);
    if (dims[d].keeps_places() || !places.is_split(factor)) continue;
    const LocalDim part = part_of_result(dims[d], places.num_parts(factor));
    x = places.window(x, d, factor, part.windows, fill);
    low[d] = part.low;
    high[d] = part.high;
  }
  return x;
}

}  // namespace lockstep::ir::rules
