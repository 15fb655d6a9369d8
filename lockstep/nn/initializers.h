// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/random/key.h"
#include "lockstep/tree/visit.h"

namespace lockstep::nn {

/// The initial value of a layer's array: a function of a key, a shape and a floating dtype. Those of
/// nn::initializers are ready-made; a function of your own works, too. In a tree it is not a leaf and not
/// part of the structure, so a jitted function cannot depend on it.
class Initializer {
 public:
  using Function = std::function<Array(const random::Key& key, const Shape& shape, DType dtype)>;

  /// No function: the layer uses its default.
  Initializer() = default;

  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Initializer> &&
           std::is_invocable_r_v<Array, const F&, const random::Key&, const Shape&, DType>)
      Initializer(F function)
      : function_(std::make_shared<const Function>(std::move(function))) {}

  bool valid() const { return function_ != nullptr; }

  /// Calls the function. Throws Error if there is none, and passes on the function's exceptions.
  Array operator()(const random::KeyOperand& key, const Shape& shape, DType dtype = DType::kF32) const;

  static void tree_parts(Initializer&, tree::Parts&) {}

 private:
  std::shared_ptr<const Function> function_;  // immutable, and shared by the copies of a layer
};

/// jax.nn.initializers: the same key, shape and dtype give JAX's numbers, to the bit where lockstep::random's
/// are, and within a few units in the last place for normal distributions. Each throws DTypeError for a dtype
/// that is not floating.
namespace initializers {

Array zeros(const random::Key& key, const Shape& shape, DType dtype = DType::kF32);
Array ones(const random::Key& key, const Shape& shape, DType dtype = DType::kF32);

/// Every element has this value.
Initializer constant(double value);

/// Uniform in [0, scale).
Initializer uniform(double scale = 1e-2);

/// Normal, with mean 0 and this standard deviation.
Initializer normal(double stddev = 1e-2);

/// stddev times a standard normal distribution truncated to [lower, upper]. So the standard deviation of the
/// result is a little less than stddev.
Initializer truncated_normal(double stddev = 1e-2, double lower = -2, double upper = 2);

/// Which dimensions of an array are its inputs, its outputs, and neither (batch); all others are the window
/// of a convolution. Negative numbers count from the end.
struct FanAxes {
  std::vector<std::int64_t> in_axis = {-2}, out_axis = {-1}, batch_axis = {};
};

/// The divisor of variance_scaling: the number of inputs, the number of outputs, their mean, or the square
/// root of their product.
enum class Fan { kIn, kOut, kAvg, kGeoAvg };
enum class Distribution { kTruncatedNormal, kNormal, kUniform };

/// Random numbers of mean 0 and variance scale / fan. The truncated normal distribution ends at two standard
/// deviations. Throws ShapeError if the shape does not have the dimensions of `axes`.
Initializer variance_scaling(double scale, Fan mode, Distribution distribution, FanAxes axes = {});

/// variance_scaling, truncated normal or uniform. glorot: scale 1, Fan::kAvg (Glorot and Bengio, 2010).
/// lecun: scale 1, Fan::kIn (LeCun and others, 1998). he: scale 2, Fan::kIn (He and others, 2015).
Initializer glorot_normal(FanAxes axes = {});
Initializer glorot_uniform(FanAxes axes = {});
Initializer lecun_normal(FanAxes axes = {});
Initializer lecun_uniform(FanAxes axes = {});
Initializer he_normal(FanAxes axes = {});
Initializer he_uniform(FanAxes axes = {});

/// scale times a matrix with orthonormal columns, or rows if there are fewer rows; uniformly distributed over
/// all such matrices (random::orthogonal). The columns are along column_axis, the rows along all other
/// dimensions together. Throws ShapeError for fewer than two dimensions.
Initializer orthogonal(double scale = 1, std::int64_t column_axis = -1);

}  // namespace initializers
}  // namespace lockstep::nn
