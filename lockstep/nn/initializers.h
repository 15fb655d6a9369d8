#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/tree/visit.h"

namespace lockstep::nn {

/// What a layer's array is at first: a function of a key, a shape and a floating dtype, such as those of
/// nn::initializers or one's own. In a tree it has no parts: a jitted function cannot depend on it.
class Initializer {
 public:
  using Function = std::function<Array(const Array& key, const Shape& shape, DType dtype)>;

  /// None: the layer's own default.
  Initializer() = default;

  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Initializer> &&
           std::is_invocable_r_v<Array, const F&, const Array&, const Shape&, DType>) Initializer(F function)
      : function_(std::make_shared<const Function>(std::move(function))) {}

  bool valid() const { return function_ != nullptr; }

  /// The array. Throws Error where there is no function, and what the function throws.
  Array operator()(const Operand& key, const Shape& shape, DType dtype = DType::kF32) const;

  static void tree_parts(Initializer&, tree::Parts&) {}

 private:
  std::shared_ptr<const Function> function_;  // immutable, and shared by the copies of a layer
};

/// jax.nn.initializers: of the same key, shape and dtype the same numbers, to the bit where those of
/// lockstep::random are, and for normal ones to a few units in the last place. Each throws DTypeError for a
/// dtype that is not floating.
namespace initializers {

Array zeros(const Array& key, const Shape& shape, DType dtype = DType::kF32);
Array ones(const Array& key, const Shape& shape, DType dtype = DType::kF32);

/// The value everywhere.
Initializer constant(double value);

/// Uniform in [0, scale).
Initializer uniform(double scale = 1e-2);

/// Normal, of mean 0 and this deviation.
Initializer normal(double stddev = 1e-2);

/// stddev times what is normal within the bounds. The deviation of the result is a little less than stddev.
Initializer truncated_normal(double stddev = 1e-2, double lower = -2, double upper = 2);

/// Which dimensions count an array's inputs, its outputs, and neither; the others are the window of a
/// convolution. Negative ones count from the end.
struct FanAxes {
  std::vector<std::int64_t> in_axis = {-2}, out_axis = {-1}, batch_axis = {};
};

/// By what variance_scaling divides: the inputs of an output, the outputs of an input, the mean of both, or
/// the root of their product.
enum class Fan { kIn, kOut, kAvg, kGeoAvg };
enum class Distribution { kTruncatedNormal, kNormal, kUniform };

/// Of mean 0 and variance scale / fan. The truncated one ends at two deviations. Throws ShapeError for a
/// shape that has not these dimensions.
Initializer variance_scaling(double scale, Fan mode, Distribution distribution, FanAxes axes = {});

/// variance_scaling of scale 1 and the mean of both fans (Glorot and Bengio, 2010); of scale 1 and the inputs
/// (LeCun and others, 1998); of scale 2 and the inputs (He and others, 2015); each truncated normal, or
/// uniform.
Initializer glorot_normal(FanAxes axes = {});
Initializer glorot_uniform(FanAxes axes = {});
Initializer lecun_normal(FanAxes axes = {});
Initializer lecun_uniform(FanAxes axes = {});
Initializer he_normal(FanAxes axes = {});
Initializer he_uniform(FanAxes axes = {});

/// scale times a matrix of orthonormal columns, or rows where there are fewer of them, uniform among all such
/// (random::orthogonal). The columns stand along column_axis, the rows along the other dimensions together.
/// Throws ShapeError for less than two dimensions.
Initializer orthogonal(double scale = 1, std::int64_t column_axis = -1);

}  // namespace initializers
}  // namespace lockstep::nn
