// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/edges.h"

namespace lockstep::golden {

const std::vector<KnownDifference>& known_differences() {
  static constexpr const char* kAny = ".*";
  static constexpr const char* kReal = "float.*|bfloat16";
  static constexpr const char* kInexact = "float.*|bfloat16|complex.*";
  static constexpr const char* kDerivatives = "j|r|jj|rr";
  static constexpr const char* kLargest = ".*e\\+(30|38|308).*|.*65504.*|.*(57344|448).*";
  static constexpr const char* kNotNan = ".*, not .*nan.*";
  static constexpr const char* kEnds = ".*(e-38|e-41|e\\+38).*";
  static const std::vector<KnownDifference> all = {
      {"`xlogy`, `xlog1py`", "derivatives", "xlogy|xlog1py", kInexact, "j|jj", kAny,
       ".*, not (.*nan.*|-?inf)",
       "JAX adds the other operand's tangent, 0, times its slope, which may be infinite or NaN"},
      {"`logaddexp`, `logaddexp2`, `cumlogsumexp`", "derivatives at infinities",
       "logaddexp|logaddexp2|cumlogsumexp\\(rows\\)", kInexact, kDerivatives, ".*inf.*", kAny,
       "an infinite operand has the whole slope, two of them half each; JAX gives exp of the finite one, or "
       "NaN"},
      {"`logaddexp`, `logaddexp2`, `cumlogsumexp`", "derivatives at the largest numbers",
       "logaddexp|logaddexp2|cumlogsumexp\\(rows\\)", "float.*|bfloat16", kDerivatives, kLargest, kAny,
       "two equal operands have half the slope each; JAX gives both the whole one, as the sum is rounded to "
       "them"},
      {"`logaddexp`, `logaddexp2`, `cumlogsumexp`, `nn::softplus`, `nn::log_sigmoid`, `nn::mish` of complex "
       "numbers",
       "at infinities", "logaddexp2?|cumlogsumexp\\(rows\\)|nn::(softplus|log_sigmoid|mish)", "complex.*",
       kAny, ".*(inf|nan|e\\+38|e\\+308).*", ".*, not nan\\+nani",
       "the larger operand is taken out of the sum; JAX multiplies it by 2, which is NaN"},
      {"`all`, `any` of complex numbers", "imaginary numbers", "(all|any)\\(axis=1\\)", "complex.*", "v",
       kAny, "1, not 0", "they are not 0, as in NumPy; JAX's conversion to bool takes the real part"},
      {"`logaddexp2`", "where the result is 0", "logaddexp2", "float.*|int.*", "v", "-1, -1",
       "(0|.*e-05), not .*",
       "log2(1/2 + 1/2) is 0, and in f16 within its precision of 0 where the processor has f16; JAX's is a "
       "rounding of 1 / log(2)",
       KnownDifference::kRounding},
      {"`nn` of integers", "values", "nn::(softmax|log_softmax|soft_sign|squareplus|log_sigmoid)", "u?int.*",
       "v", kAny, kAny,
       "computed in f32, or f64 for i64; JAX negates, subtracts and multiplies integers first, which wraps"},
      {"`power` of integers", "exponents below 0", "power", "int.*", "v", ".*, -.*", "0, not .*",
       "1 / x, rounded towards 0; JAX multiplies for the bits of the exponent, of which below 0 all count"},
      {"`clip`, `nn::hard_tanh` of unsigned integers", "bounds below 0", "clip.*|nn::hard_tanh", "uint.*",
       "v", kAny, kAny, "such a bound bounds nothing; JAX's wraps to the largest numbers"},
      {"`power(x, 0.5)`", "the smallest numbers", "power\\(x, 0.5\\)", "float.*", "v",
       "-?(1\\.401|4\\.9406).*", kAny,
       "XLA computes with them or takes them for 0, as what is compiled with it asks",
       KnownDifference::kRounding},
      {"`power(x, 0.5)` of i64 and ui64", "dtype", "power\\(x, 0.5\\)", "u?int64", "v", kAny, "f32.*",
       "a C++ number is f32 with integers; JAX with 64-bit dtypes enabled has f64"},
      {"sums and means of f8", "beyond the largest number",
       "(nan)?(sum|mean|std|var)\\(.*\\)|logsumexp\\(axis=1\\)|median\\(axis=1\\)", "float8.*", "v", kLargest,
       kAny, "added up in f32, and rounded to the largest number; JAX's is beyond it"},
      {"functions of f8", "where exp or a logarithm is an infinity",
       "cumlogsumexp\\(rows\\)|nn::(softmax|log_softmax|glu|silu)|sigmoid", "float8.*", "v", kAny,
       ".*, not (nan|0)", "computed without infinities, which f8_e4m3fn has not; JAX begins with one"},
      {"`top_k` of f8_e4m3fn", "NaN", "top_k", "float8_e4m3fn", "v", ".*nan.*", kAny,
       "NaN is the largest, as for the other dtypes; JAX's sorts them last"},
      {"`nanargmax`, `nanargmin` of f8_e4m3fn", "NaN", "nanarg(max|min)\\(axis=1\\)", "float8_e4m3fn", "v",
       ".*nan.*", kAny, "NaN is replaced by the least number; JAX replaces it by an infinity, which is NaN"},
      {"bf16", "the smallest and the largest numbers", kAny, "bfloat16", kAny, kEnds, kAny,
       "XLA computes them in f32, where it rounds some to 0, and simplifies quotients of f32 only"},
      {"`betaln`", "derivatives", "betaln", kReal, kDerivatives, kAny, kAny,
       "the derivative is digamma(x) - digamma(x + y); JAX differentiates the branches of its approximation"},
      {"`betaln`", "large numbers", "betaln", "float.*", "v", kLargest, kAny,
       "JAX's approximation is off by 1 where a ratio of its operands is too small a number"},
      {"`betaln` of ui64", "the largest numbers", "betaln", "uint64", "v", ".*e\\+19, .*e\\+19", kAny,
       "-25572617290405311320 to 20 digits; JAX's approximation ends in 250000", KnownDifference::kRounding},
      {"`betaln`", "where the result is near 0", "betaln", "float64|u?int64", "v", kAny,
       ".*, not 0\\.0645.*|.*, not 0|-1\\.2786.*",
       "logarithms of gamma functions cancel, each rounded: log(16/15) is 0.06453852113757117, JAX's is "
       "0.06453852113756975",
       KnownDifference::kRounding},
      {"`ndtri`", "derivatives at 0, 1 and the smallest numbers", "ndtri", kReal, kDerivatives,
       "-?0|1|.*e-(38|45|308|324)", kAny, "the density there is 0, so the slope is infinite; JAX's is 0"},
      {"`digamma`, `gammaln`, `gamma`", "at 0", "digamma|gammaln|gamma", kAny, kAny,
       "-?0|-?1\\.40.*|-?4\\.9.*|-?9\\.18.*", ".*inf, not nan",
       "the pole from above, as SciPy has it for digamma; JAX's is NaN"},
      {"`frexp`", "the smallest numbers", "frexp", "float.*", "v", kAny, kAny,
       "0.5 * 2^-148 is the smallest f32; JAX's exponent is lower by 1"},
      {"`cbrt`", "the smallest numbers and the ends", "cbrt", kReal, kAny, kAny, kAny,
       "the plugin's older and newer emitters approximate differently, to 15 units in the last place; for "
       "the smallest numbers JAX's sign is wrong",
       KnownDifference::kRounding},
      {"`linalg::norm`", "one element", "linalg::norm.*", kAny, kAny, kAny,
       "inf, not .*|0, not .*|nan, not 0", "XLA may simplify sqrt(x * x) to abs(x), which does not overflow",
       KnownDifference::kRounding},
      {"`arctan2`", "second derivatives at the smallest numbers", "arctan2", "float.*|bfloat16", "jj|rr",
       kAny, "-?inf, not nan",
       "they are beyond the largest number; JAX's squares are rounded to 0, which is 0 / 0"},
      {"`arctan2` of complex numbers", "on the branch cut", "arctan2", "complex.*", "v", kAny, kAny,
       "the sign of a part that is a rounding of 0 decides", KnownDifference::kRounding},
      {"`arctanh` of complex numbers", "second derivatives at infinities", "arctanh", "complex.*", "rr", kAny,
       "nan.*", "an infinity times 0, as forwards in JAX; backwards it has 0"},
      {"`hypot`", "derivatives at the smallest and the largest numbers, and of operands of one size", "hypot",
       kReal, kDerivatives, kAny, "(?!-?nan|-?inf).*",
       "of quotients with the larger one; JAX's squares are rounded to 0 or infinity, and it takes the "
       "derivatives of the larger and the smaller operand"},
      {"`sinc`", "derivatives near 0", "sinc", kInexact, kDerivatives, kAny, ".*, not (-?inf|.*nan.*)",
       "the derivatives of the series; JAX's are differences of two large quotients"},
      {"`gammaln` of i64 and ui64", "at 2", "gammaln", "u?int64", "v", "2", kAny,
       "a rounding of XLA's, of 4 units of 1", KnownDifference::kRounding},
      {"`gamma` of complex numbers", "far from 0", "gamma", "complex.*", kAny, "-?100.*|.*e\\+10.*", kAny,
       "exp of a large logarithm multiplies its rounding", KnownDifference::kRounding},
      {"`nn::celu` of complex numbers", "-inf", "nn::celu", "complex.*", kAny, ".*-inf.*",
       "nan\\+nani, not .*",
       "without jit a quotient of -inf is NaN, in JAX, too; under jit XLA leaves out a division by 1",
       KnownDifference::kRounding},
      {"`nn::gelu`", "at -2 and below", "nn::gelu", "float.*|int.*", kAny, "-?(2|2\\.5|3|6|7)", kAny,
       "1 + tanh cancels: roundings of XLA's tanh are left, which its older and newer emitters approximate "
       "differently",
       KnownDifference::kRounding},
      {"`var`, `std`, `nanmean`, `nanvar`, `nanstd` of f16 and bf16", "the largest and the smallest numbers",
       "(nan)?(var|std|mean)\\(.*\\)", "float16|bfloat16", kAny, kAny, kAny,
       "computed in f32; JAX rounds deviations, squares and sums to the dtype"},
      {"`quantile`", "the smallest numbers", "quantile\\(0.3\\)", "float.*", "v", kAny, "0, not -0",
       "a part of the smallest number is rounded to 0; JAX's keeps the sign of one of two",
       KnownDifference::kRounding},
      {"`matmul`, `dot`, `einsum`, `cov`, `corrcoef`", "the largest numbers, and numbers near 0",
       "matmul|dot|einsum.*|cov|corrcoef", "float.*|bfloat16|int64", "v|j", kAny,
       ".*inf, not .*|.*, not -?inf|.*, not -?0|0, not .*",
       "which products are added first, and whether they are rounded before, is XLA's choice",
       KnownDifference::kRounding},
      {"`cov`, `corrcoef` of integers", "rows with the ends", "cov|corrcoef", "u?int(32|64)", "v", kAny, kAny,
       "differences from a mean cancel; which are rounded before, and in which order they are added, is "
       "XLA's "
       "choice",
       KnownDifference::kRounding},
      {"`nn::soft_sign` of complex numbers", "second derivatives at the smallest numbers", "nn::soft_sign",
       "complex.*", "jj|rr", ".*(e-38|e-308).*", ".*, not nan\\+nani",
       "the square of a number is rounded to 0, in JAX and under jit, or is not", KnownDifference::kRounding},
      {"any, of complex numbers", "the largest numbers", kAny, "complex.*", kAny, kLargest, kAny,
       "a product is the difference of two infinities, unless XLA rounds only one of the two, which depends "
       "on what is compiled with it",
       KnownDifference::kRounding},
      {"`max`, `min`, `ptp` of bf16", "derivatives of rows with NaN", "(max|min|ptp)\\(axis=1\\)", "bfloat16",
       "r", ".*nan.*", "0, not nan",
       "no element equals the result, so none gets a share, as with other dtypes; JAX multiplies by a mask, "
       "for which XLA selects only where the dtype is another one"},
      {"`sort`", "descending, with ties", "sort\\(descending\\)", kInexact, "v|j", kAny, kAny,
       "equal elements keep their order, as in argsort; JAX reverses it"},
      {"`arctan`, `arctan2`, `angle`, `arcsinh`, `arccosh`, `erf`, `erfc`, `ndtr`, `hypot`, "
       "`nn::gelu(exact)`, "
       "`nn::sparse_plus`, `nn::squareplus`",
       "derivatives at the largest numbers",
       "arctan2?|angle|arc(sin|cos)h|erfc?|ndtr|hypot|nn::(gelu\\(exact\\)|sparse_plus|squareplus)", kReal,
       "r|jj|rr", kLargest, kNotNan,
       "a square within JAX's rule overflows, and is multiplied by 0; here is the limit"},
      {"`divide` without jit", "derivatives", "divide", kInexact, kDerivatives, kAny, ".*, not .*(nan|inf).*",
       "x / y / y, operation by operation, which is finite; compiled, as JAX's, it is x / y², or a product",
       KnownDifference::kWithoutJit},
      {"`log`, `log2`, `log10`, `log1p`, `rsqrt`, `arctanh`, `abs` of complex numbers without jit",
       "derivatives", "log(2|10|1p)?|rsqrt|arctanh|abs", "complex.*", kDerivatives, ".*(inf|e-38|e-308).*",
       ".*, not nan.*",
       "a quotient by an infinity is 0, as in C, and one of small numbers is finite; compiled, as "
       "JAX's, it is NaN",
       KnownDifference::kWithoutJit},
      {"`nn::gelu(exact)` without jit", "second derivatives", "nn::gelu\\(exact\\)", "float.*", "jj|rr",
       kLargest, "nan, not 0", "0 times an infinity; compiled, the factors are in another order",
       KnownDifference::kWithoutJit},
      {"`sign` of complex numbers without jit", "zeros", "sign", "complex.*", "v", "-?0[+-]0i",
       "0\\+0i, not .*", "+0; compiled with other operations, as JAX's, a zero keeps its signs",
       KnownDifference::kWithoutJit},
      {"`gammaln` without jit", "where the result is 0", "gammaln", "float64", "v", "[12]", ".*",
       "compiled alone, XLA rounds it in another way", KnownDifference::kWithoutJit},
      {"`matmul` of bf16 without jit", "the smallest numbers", "matmul", "bfloat16", "v", kAny,
       ".*e-38, not .*e-38", "compiled alone, XLA rounds it in another way", KnownDifference::kWithoutJit},
  };
  return all;
}

}  // namespace lockstep::golden
