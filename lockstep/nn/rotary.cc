// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/rotary.h"

#include <cmath>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

void check(const Operand& x, const RotaryOptions& options) {
  const Shape& shape = x.shape();
  if (!is_floating(x.type().dtype)) {
    fail<DTypeError>("[rotary_embedding] expected an array of a floating dtype, got {}{}",
                     to_string(x.aval()), ops::at());
  }
  if (shape.size() != 4 || shape[3] % 2 != 0) {
    fail<ShapeError>(
        "[rotary_embedding] expected [batch, rows, heads, features] with an even number of features, got "
        "{}{}",
        to_string(x.aval()), ops::at());
  }
  if (!(options.base > 0)) {
    fail("[rotary_embedding] expected a base above 0, got {}{}", options.base, ops::at());
  }
  if (!options.positions) return;
  const Shape& positions = options.positions->shape();
  if (positions != Shape{shape[1]} && positions != Shape{shape[0], shape[1]}) {
    fail<ShapeError>("[rotary_embedding] expected positions of the rows of {}, [{}] or [{}, {}], got {}{}",
                     to_string(x.aval()), shape[1], shape[0], shape[1], to_string(options.positions->aval()),
                     ops::at());
  }
}

/// Within a trace. Positions: [rows] or [batch, rows].
Array turned(const Array& x, const Array& positions, double base) {
  const DType wide = at_least_f32(x.dtype());
  const std::int64_t half = x.shape()[3] / 2;
  const Array rates = exp(arange(half, wide) * full({}, -std::log(base) / static_cast<double>(half), wide));
  const Array angles = expand_dims(expand_dims(astype(positions, wide), -1) * rates, -2);
  const Array cosines = cos(angles), sines = sin(angles);
  const std::vector<Array> halves = split(astype(x, wide), 2, -1);
  return astype(
      concatenate({halves[0] * cosines - halves[1] * sines, halves[1] * cosines + halves[0] * sines}, -1),
      x.dtype());
}

}  // namespace

Array rotary_embedding(const Operand& x, const RotaryOptions& options) {
  CallSiteScope here(x.site());
  check(x, options);
  std::vector<Array> operands = {x.as_array()};
  if (options.positions) operands.push_back(*options.positions);
  const std::string parameters = fmt::format("{} {}", options.base, options.positions.has_value());
  return run_operation("rotary_embedding", parameters, operands,
                       [&](std::span<const Array> t) {
                         const Array positions = options.positions ? t[1] : arange(t[0].shape()[1]);
                         return std::vector<Array>{turned(t[0], positions, options.base)};
                       })
      .front();
}

}  // namespace lockstep::nn
