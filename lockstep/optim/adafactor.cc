// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/adafactor.h"

#include <algorithm>
#include <numeric>

namespace lockstep::optim::internal {
namespace {

/// The second largest and the largest dimension; nullopt if the parameter is not factored.
std::optional<std::pair<std::int64_t, std::int64_t>> factored_dims(const ScaleByFactoredRms& rms,
                                                                   const Shape& shape) {
  if (!rms.factored || shape.size() < 2) return std::nullopt;
  std::vector<std::size_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::ranges::stable_sort(dims, {}, [&](std::size_t d) { return shape[d]; });
  const std::size_t second = dims[dims.size() - 2];
  if (shape[second] < rms.min_dim_size_to_factor) return std::nullopt;
  return std::pair(static_cast<std::int64_t>(second), static_cast<std::int64_t>(dims.back()));
}

}  // namespace

Factored init_factored(const ScaleByFactoredRms& rms, const Array& parameter) {
  // On all devices that the parameter is on.
  const Array none = reshape(sum(zeros_like(parameter)), {1});
  const auto dims = factored_dims(rms, parameter.shape());
  if (!dims) return {{}, none, none, zeros_like(parameter)};
  auto without = [&](std::int64_t d) { return zeros_like(max(parameter, {.axis = Axes(d)})); };
  return {{}, without(dims->second), without(dims->first), none};
}

Factored update_factored(const ScaleByFactoredRms& rms, const Array& gradient, const Factored& before,
                         const Array& count) {
  const DType dtype = gradient.dtype();
  const Array step = astype(count - rms.step_offset + 1, scale_dtype(dtype));
  const Array decay = 1.0 - power(step, -rms.decay_rate);
  const Array squares = square(gradient) + rms.epsilon;
  auto mixed = [&](const Array& old, const Array& now) {
    return astype(decay * old + (1.0 - decay) * now, dtype);
  };
  const auto dims = factored_dims(rms, gradient.shape());
  if (!dims) {
    const Array v = mixed(before.v, squares);
    return {gradient * power(v, -0.5), before.v_row, before.v_col, v};
  }
  const auto [second, largest] = *dims;
  const Array rows = mixed(before.v_row, mean(squares, {.axis = Axes(largest)}));
  const Array columns = mixed(before.v_col, mean(squares, {.axis = Axes(second)}));
  const std::int64_t within_rows = second > largest ? second - 1 : second;
  const Array of_row = power(rows / mean(rows, {.axis = Axes(within_rows), .keepdims = true}), -0.5);
  const Array of_column = power(columns, -0.5);
  return {gradient * expand_dims(of_row, largest) * expand_dims(of_column, second), rows, columns, before.v};
}

}  // namespace lockstep::optim::internal
