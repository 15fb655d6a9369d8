// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/edges.h"

namespace lockstep::golden {

const std::vector<KnownDifference>& known_differences() {
  static constexpr const char* kAny = ".*";
  static constexpr const char* kDerivatives = "j|r|jj|rr";
  static constexpr const char* kLargest = ".*e\\+(30|38|308).*|.*65504.*";
  static constexpr const char* kNotNan = ".*, not .*nan.*";
  static const std::vector<KnownDifference> all = {
      {"`xlogy`, `xlog1py`", "derivatives", "xlogy|xlog1py", kAny, kDerivatives, kAny, kNotNan,
       "JAX adds the other operand's tangent, 0, times its slope, which may be infinite or NaN"},
      {"`logaddexp`, `logaddexp2`, `cumlogsumexp`", "derivatives at infinities",
       "logaddexp|logaddexp2|cumlogsumexp\\(rows\\)", kAny, kDerivatives, ".*inf.*", kAny,
       "an infinite operand has the whole slope, two of them half each; JAX gives exp of the finite one, or "
       "NaN"},
      {"`betaln`", "derivatives", "betaln", kAny, kDerivatives, kAny, kAny,
       "the derivative is digamma(x) - digamma(x + y); JAX differentiates the branches of its approximation"},
      {"`betaln`", "large numbers", "betaln", kAny, "v", kLargest, kAny,
       "JAX's approximation is off by 1 where a ratio of its operands is too small a number"},
      {"`ndtri`", "derivatives at 0 and 1", "ndtri", kAny, kDerivatives, kAny, kAny,
       "the density there is 0, so the slope is infinite; JAX's is 0"},
      {"`digamma`, `gammaln`, `gamma`", "at 0", "digamma|gammaln|gamma", kAny, kAny,
       "-?0|-?1\\.40.*|-?4\\.9.*", ".*inf, not nan",
       "the pole from above, as SciPy has it for digamma; JAX's is NaN"},
      {"`frexp`", "the smallest numbers", "frexp", kAny, kAny, kAny, kAny,
       "0.5 * 2^-148 is the smallest f32; JAX's exponent is lower by 1"},
      {"`cbrt`", "the smallest numbers and the ends", "cbrt", kAny, kAny, kAny, kAny,
       "the plugin's older and newer emitters approximate differently, to 15 units in the last place; for "
       "the smallest "
       "numbers JAX's sign is wrong"},
      {"`linalg::norm`", "one element", "linalg::norm.*", kAny, kAny, kAny, "inf, not .*|0, not .*",
       "XLA may simplify sqrt(x * x) to abs(x), which does not overflow"},
      {"`sort`", "descending, with ties", "sort\\(descending\\)", kAny, kAny, kAny, kAny,
       "equal elements keep their order, as in argsort; JAX reverses it"},
      {"any", "second derivatives at the largest numbers", kAny, kAny, "r|jj|rr", kLargest, kNotNan,
       "a square within JAX's rule overflows, and is multiplied by 0; here is the limit"},
      {"functions that need an order, of complex numbers", "values and derivatives",
       "clamp|cum(max|min)\\(rows\\)|cumlogsumexp\\(rows\\)|f?(max|min)|(nan)?(max|min)\\(axis=1\\)|"
       "maximum|minimum|greater|greater_equal|less|less_equal|gamma|logaddexp2?|logsumexp\\(axis=1\\)|"
       "ptp\\(axis=1\\)|searchsorted.*|unique|all\\(axis=1\\)|any\\(axis=1\\)|"
       "nn::(celu|elu|hard_sigmoid|hard_silu|hard_tanh|leaky_relu|log_sigmoid|log_softmax|mish|relu6?|selu|"
       "softmax|softplus|sparse_plus)",
       "complex.*", kAny, kAny, kAny,
       "refused, or with other results at infinities; JAX compares real, then imaginary parts", false},
      {"`arctan2`, `arctanh`, `reciprocal`, `square`, `var`, `linalg::norm` of complex numbers",
       "at infinities and of one element",
       "arctan2|arctanh|reciprocal|square|var\\(ddof=1\\)|linalg::norm\\(axis=1\\)", "complex.*", kAny, kAny,
       kAny, "a NaN or another sign of 0 where JAX has the limit", false},
      {"arithmetic of bools", "values",
       "bitwise_count|divmod|floor_divide|fmod|left_shift|right_shift|power|remainder|square|"
       "nn::hard_tanh|nn::relu6",
       "bool", "v", kAny, kAny, "refused, or of another dtype", false},
      {"`logaddexp`, `logaddexp2`, `cumlogsumexp`", "derivatives at the largest numbers",
       "logaddexp2?|cumlogsumexp\\(rows\\)", "float.*", kAny, kAny, kAny,
       "a difference of operands overflows", false},
      {"`var`, `std`, `nanvar`, `nanstd`, `nanmean`, `quantile`",
       "of one element, and of f16's largest numbers", "(nan)?(var|std|mean)\\(.*\\)|quantile\\(0.3\\)",
       "float.*", kAny, kAny, kAny, "a sum of squares is rounded, or overflows, elsewhere", false},
      {"`nn::gelu`, `arctan2`, `hypot`, `sinc`", "far from 0, and derivatives at 0",
       "nn::gelu|arctan2|hypot|sinc", "float.*", kAny, kAny, kAny,
       "a product with the smallest numbers is rounded to 0", false},
      {"`betaln`, `ndtr`, `ndtri`", "values at the ends", "betaln|ndtri?", "float.*", "v", kAny, kAny,
       "beyond the tolerance", false},
      {"`dot`, `einsum`", "derivatives with the largest numbers", "dot|einsum.*", "float.*", "j", kAny, kAny,
       "the order of a sum decides whether it overflows", false},
  };
  return all;
}

}  // namespace lockstep::golden
