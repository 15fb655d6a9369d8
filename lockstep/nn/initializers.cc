// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/initializers.h"

#include <cmath>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/shape.h"
#include "lockstep/random/matrices.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {

Array Initializer::operator()(const random::KeyOperand& key, const Shape& shape, DType dtype) const {
  CallSiteScope here(key.site());
  if (!valid()) fail("[nn::Initializer] expected a function, got none{}", ops::at());
  return (*function_)(key.as_array(), shape, dtype);
}

namespace initializers {
namespace {

void check_floating(const char* name, DType dtype) {
  if (!is_floating(dtype)) {
    fail<DTypeError>("[initializers::{}] expected a floating dtype, got {}{}", name, lockstep::name(dtype),
                     ops::at());
  }
}

/// x times a number of its dtype.
Array scaled(const Array& x, double factor) { return x * full({}, factor, x.dtype()); }

/// The product of the sizes of these dimensions.
double size_along(const Shape& shape, const std::vector<std::int64_t>& axes) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  double size = 1;
  for (std::int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      fail<ShapeError>(
          "[initializers::variance_scaling] expected a shape with a dimension {}, got {}{}; name the "
          "dimensions of inputs and outputs in FanAxes",
          axis, to_string(shape), ops::at());
    }
    size *= static_cast<double>(shape[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
  }
  return size;
}

double fan_of(const Shape& shape, Fan mode, const FanAxes& axes) {
  const double inputs = size_along(shape, axes.in_axis), outputs = size_along(shape, axes.out_axis);
  const double window =
      static_cast<double>(num_elements(shape)) / inputs / outputs / size_along(shape, axes.batch_axis);
  const double in = inputs * window, out = outputs * window;
  switch (mode) {
    case Fan::kIn:
      return in;
    case Fan::kOut:
      return out;
    case Fan::kAvg:
      return (in + out) / 2;
    case Fan::kGeoAvg:
      return std::sqrt(in * out);
  }
  return in;
}

/// The standard deviation of a standard normal distribution that is truncated to two standard deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

}  // namespace

Array zeros(const random::Key&, const Shape& shape, DType dtype) {
  check_floating("zeros", dtype);
  return lockstep::zeros(shape, dtype);
}

Array ones(const random::Key&, const Shape& shape, DType dtype) {
  check_floating("ones", dtype);
  return lockstep::ones(shape, dtype);
}

Initializer constant(double value) {
  return [value](const random::Key&, const Shape& shape, DType dtype) {
    check_floating("constant", dtype);
    return full(shape, value, dtype);
  };
}

Initializer uniform(double scale) {
  return [scale](const random::Key& key, const Shape& shape, DType dtype) {
    return scaled(random::uniform(key, shape, dtype), scale);
  };
}

Initializer normal(double stddev) {
  return [stddev](const random::Key& key, const Shape& shape, DType dtype) {
    return scaled(random::normal(key, shape, dtype), stddev);
  };
}

Initializer truncated_normal(double stddev, double lower, double upper) {
  return [=](const random::Key& key, const Shape& shape, DType dtype) {
    return scaled(random::truncated_normal(key, lower, upper, shape, dtype), stddev);
  };
}

Initializer variance_scaling(double scale, Fan mode, Distribution distribution, FanAxes axes) {
  return [=](const random::Key& key, const Shape& shape, DType dtype) {
    check_floating("variance_scaling", dtype);
    // Rounded to the dtype at each step, as JAX does it.
    const Array variance = full({}, scale / fan_of(shape, mode, axes), dtype);
    switch (distribution) {
      case Distribution::kTruncatedNormal:
        return random::truncated_normal(key, -2, 2, shape, dtype) *
               (sqrt(variance) / full({}, kTruncatedDeviation, dtype));
      case Distribution::kNormal:
        return random::normal(key, shape, dtype) * sqrt(variance);
      case Distribution::kUniform:
        return random::uniform(key, shape, dtype, -1.0, 1.0) * sqrt(3 * variance);
    }
    return variance;
  };
}

Initializer glorot_normal(FanAxes axes) {
  return variance_scaling(1, Fan::kAvg, Distribution::kTruncatedNormal, std::move(axes));
}
Initializer glorot_uniform(FanAxes axes) {
  return variance_scaling(1, Fan::kAvg, Distribution::kUniform, std::move(axes));
}
Initializer lecun_normal(FanAxes axes) {
  return variance_scaling(1, Fan::kIn, Distribution::kTruncatedNormal, std::move(axes));
}
Initializer lecun_uniform(FanAxes axes) {
  return variance_scaling(1, Fan::kIn, Distribution::kUniform, std::move(axes));
}
Initializer he_normal(FanAxes axes) {
  return variance_scaling(2, Fan::kIn, Distribution::kTruncatedNormal, std::move(axes));
}
Initializer he_uniform(FanAxes axes) {
  return variance_scaling(2, Fan::kIn, Distribution::kUniform, std::move(axes));
}

Initializer orthogonal(double scale, std::int64_t column_axis) {
  return [=](const random::Key& key, const Shape& shape, DType dtype) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (rank < 2 || column_axis < -rank || column_axis >= rank) {
      fail<ShapeError>(
          "[initializers::orthogonal] expected a shape of two dimensions or more, with a dimension {}, got "
          "{}{}",
          column_axis, to_string(shape), ops::at());
    }
    if (num_elements(shape) == 0) return zeros(key, shape, dtype);
    Shape rows = shape;
    const auto at = rows.begin() + (column_axis < 0 ? column_axis + rank : column_axis);
    const std::int64_t columns = *at;
    rows.erase(at);
    const Array q = random::orthogonal(key, num_elements(rows), {}, dtype, columns);
    rows.push_back(columns);
    return scaled(moveaxis(reshape(q, rows), -1, column_axis), scale);
  };
}

}  // namespace initializers
}  // namespace lockstep::nn
