// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/operations.h"

#include <map>
#include <stdexcept>

#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"

namespace lockstep::fuzz {
namespace {

using Ints = std::vector<std::int64_t>;

Ints tail(const Node& node, std::size_t from) {
  return {node.ints.begin() + static_cast<std::ptrdiff_t>(from), node.ints.end()};
}

/// The k-th run of as many ints as the first operand has dimensions.
Ints chunk(const Arrays& x, const Node& node, std::size_t k) {
  const auto rank = static_cast<std::ptrdiff_t>(x[0].ndim()), at = static_cast<std::ptrdiff_t>(k) * rank;
  return {node.ints.begin() + at, node.ints.begin() + at + rank};
}

constexpr unsigned kInts = kI | kU, kReals = kI | kU | kF, kNumbers = kReals | kC, kAll = kNumbers | kB;

#define RUN(...)                                                       \
  []([[maybe_unused]] const Arrays& x, [[maybe_unused]] const Node& n, \
     [[maybe_unused]] const Type& t) -> Array { return __VA_ARGS__; }
#define UNARY(f, jax, ...) \
  { #f, "ls::" #f "($0)", jax "($0)", Family::kUnary, __VA_ARGS__, RUN(lockstep::f(x[0])) }
#define NN(f, ...) \
  { #f, "ls::nn::" #f "($0)", "jax.nn." #f "($0)", Family::kUnary, __VA_ARGS__, RUN(nn::f(x[0])) }
#define BINARY(f, jax, ...) \
  { #f, "ls::" #f "($0, $1)", jax "($0, $1)", Family::kBinary, __VA_ARGS__, RUN(lockstep::f(x[0], x[1])) }
#define REDUCE(f, jax, ...)                                                                             \
  {                                                                                                     \
#f, "ls::astype(ls::" #f "($0, {.axis = {#1+}, .keepdims = #?0}), #D)",                             \
        jax "($0, axis=tuple([#1+]), keepdims=#?0).astype(#D)", Family::kReduce, __VA_ARGS__,           \
        RUN(astype(lockstep::f(x[0], {.axis = Axes(tail(n, 1)), .keepdims = n.ints[0] != 0}), t.dtype)) \
  }
#define CUMULATIVE(f, ...)                                                                       \
  {                                                                                              \
#f, "ls::astype(ls::" #f "($0, {.axis = #0, .reverse = #?1}), #D)",                          \
        "jax.lax." #f "($0, axis=#0, reverse=#?1).astype(#D)", Family::kCumulative, __VA_ARGS__, \
        RUN(astype(lockstep::f(x[0], {.axis = n.ints[0], .reverse = n.ints[1] != 0}), t.dtype))  \
  }
#define OTHER(name, cpp, jax, ...)                                                           \
  {                                                                                          \
    name, cpp, jax, Family::kOther, 0, Gives::kSame, true, Exact::kNo, Needs::kAny, 0, 0, 0, \
        RUN(__VA_ARGS__)                                                                     \
  }

constexpr auto kSame = Gives::kSame;
constexpr auto kToBool = Gives::kBool;
constexpr bool smooth = true, kinked = false;
constexpr auto no = Exact::kNo, keep = Exact::kKeep, whole = Exact::kWhole, squared = Exact::kSquare;
constexpr auto any_ = Needs::kAny, positive_ = Needs::kPositive, unit = Needs::kUnit,
               divisor = Needs::kDivisor;

const Operation kOperations[] = {
    // Element by element.        takes         gives          smooth   exact    needs  reach gain offset
    UNARY(negative, "jnp.negative", kNumbers, kSame, smooth, keep, any_, 0, 1, 0),
    UNARY(abs, "jnp.abs", kI | kF, kSame, kinked, keep, any_, 0, 1, 0),
    UNARY(sign, "jnp.sign", kI | kF, kSame, kinked, whole, any_, 0, 0, 1),
    UNARY(square, "jnp.square", kNumbers, kSame, smooth, squared, any_, 4, 4, 0),
    UNARY(floor, "jnp.floor", kF, kSame, kinked, whole, any_, 0, 1, 1),
    UNARY(ceil, "jnp.ceil", kF, kSame, kinked, whole, any_, 0, 1, 1),
    UNARY(round, "jnp.round", kF, kSame, kinked, whole, any_, 0, 1, 1),
    UNARY(trunc, "jnp.trunc", kF, kSame, kinked, whole, any_, 0, 1, 1),
    UNARY(exp, "jnp.exp", kF | kC, kSame, smooth, no, any_, 2, 0, 8),
    UNARY(exp2, "jnp.exp2", kF, kSame, smooth, no, any_, 2, 0, 4),
    UNARY(expm1, "jnp.expm1", kF, kSame, smooth, no, any_, 2, 0, 8),
    UNARY(log, "jnp.log", kF, kSame, smooth, no, positive_, 4, 0, 3),
    UNARY(log1p, "jnp.log1p", kF, kSame, smooth, no, unit, 0, 0, 2),
    UNARY(log2, "jnp.log2", kF, kSame, smooth, no, positive_, 4, 0, 5),
    UNARY(log10, "jnp.log10", kF, kSame, smooth, no, positive_, 4, 0, 2),
    UNARY(sqrt, "jnp.sqrt", kF, kSame, smooth, no, positive_, 4, 0, 5),
    UNARY(rsqrt, "jax.lax.rsqrt", kF, kSame, smooth, no, positive_, 4, 0, 2),
    UNARY(cbrt, "jnp.cbrt", kF, kSame, smooth, no, positive_, 4, 0, 3),
    UNARY(reciprocal, "jnp.reciprocal", kF, kSame, smooth, no, positive_, 4, 0, 2),
    UNARY(sin, "jnp.sin", kF | kC, kSame, smooth, no, any_, 4, 0, 1),
    UNARY(cos, "jnp.cos", kF | kC, kSame, smooth, no, any_, 4, 0, 1),
    UNARY(tan, "jnp.tan", kF, kSame, smooth, no, unit, 0, 0, 1),
    UNARY(tanh, "jnp.tanh", kF, kSame, smooth, no, any_, 4, 0, 1),
    UNARY(sinh, "jnp.sinh", kF, kSame, smooth, no, any_, 2, 0, 4),
    UNARY(cosh, "jnp.cosh", kF, kSame, smooth, no, any_, 2, 0, 4),
    UNARY(arcsin, "jnp.arcsin", kF, kSame, smooth, no, unit, 0, 0, 1),
    UNARY(arccos, "jnp.arccos", kF, kSame, smooth, no, unit, 0, 0, 3),
    UNARY(arctan, "jnp.arctan", kF, kSame, smooth, no, any_, 8, 0, 2),
    UNARY(arcsinh, "jnp.arcsinh", kF, kSame, smooth, no, any_, 4, 0, 3),
    UNARY(arccosh, "jnp.arccosh", kF, kSame, smooth, no, Needs::kAboveOne, 4, 0, 4),
    UNARY(arctanh, "jnp.arctanh", kF, kSame, smooth, no, unit, 0, 0, 1),
    UNARY(sigmoid, "jax.nn.sigmoid", kF, kSame, smooth, no, any_, 4, 0, 1),
    UNARY(sinc, "jnp.sinc", kF, kSame, smooth, no, positive_, 2, 0, 1),
    UNARY(deg2rad, "jnp.deg2rad", kF, kSame, smooth, no, any_, 0, 0.02, 0),
    UNARY(erf, "jax.scipy.special.erf", kF, kSame, smooth, no, any_, 4, 0, 1),
    UNARY(erfc, "jax.scipy.special.erfc", kF, kSame, smooth, no, any_, 2, 0, 2),
    UNARY(erf_inv, "jax.scipy.special.erfinv", kF, kSame, smooth, no, unit, 0, 0, 1),
    UNARY(gammaln, "jax.scipy.special.gammaln", kF, kSame, smooth, no, positive_, 2, 0, 4),
    UNARY(digamma, "jax.scipy.special.digamma", kF, kSame, smooth, no, Needs::kAboveOne, 2, 0, 2),
    UNARY(logit, "jax.scipy.special.logit", kF, kSame, smooth, no, Needs::kPositive, 0.25, 0, 2),
    UNARY(ndtr, "jax.scipy.special.ndtr", kF, kSame, smooth, no, any_, 2, 0, 1),
    UNARY(stop_gradient, "jax.lax.stop_gradient", kAll, kSame, smooth, keep, any_, 0, 1, 0),
    UNARY(logical_not, "jnp.logical_not", kAll, kToBool, kinked, whole, any_, 0, 0, 1),
    UNARY(isfinite, "jnp.isfinite", kF, kToBool, smooth, whole, any_, 0, 0, 1),
    UNARY(isnan, "jnp.isnan", kF, kToBool, smooth, whole, any_, 0, 0, 1),
    UNARY(signbit, "jnp.signbit", kF, kToBool, kinked, whole, any_, 0, 0, 1),
    UNARY(bitwise_not, "jnp.bitwise_not", kInts | kB, kSame, kinked, whole, any_, 0, 1, 1),
    UNARY(bitwise_count, "jnp.bitwise_count", kU, Gives::kByte, kinked, whole, any_, 0, 0, 64),
    UNARY(real, "jnp.real", kC, Gives::kReal, smooth, keep, any_, 0, 1, 0),
    UNARY(imag, "jnp.imag", kC, Gives::kReal, smooth, keep, any_, 0, 1, 0),
    UNARY(conj, "jnp.conj", kC, kSame, smooth, keep, any_, 0, 1, 0),
    NN(relu, kF, kSame, kinked, keep, any_, 0, 1, 0),
    NN(relu6, kF, kSame, kinked, keep, any_, 0, 1, 0),
    NN(softplus, kF, kSame, smooth, no, any_, 4, 0, 5),
    NN(silu, kF, kSame, smooth, no, any_, 4, 1, 0),
    NN(gelu, kF, kSame, smooth, no, any_, 4, 1, 0),
    NN(elu, kF, kSame, kinked, no, any_, 4, 1, 1),
    NN(selu, kF, kSame, kinked, no, any_, 4, 2, 2),
    NN(leaky_relu, kF, kSame, kinked, no, any_, 0, 1, 0),
    NN(soft_sign, kF, kSame, kinked, no, any_, 0, 0, 1),
    NN(log_sigmoid, kF, kSame, smooth, no, any_, 4, 1, 1),
    NN(hard_tanh, kF, kSame, kinked, keep, any_, 0, 0, 1),
    NN(mish, kF, kSame, smooth, no, any_, 4, 1, 1),
    NN(squareplus, kF, kSame, smooth, no, any_, 4, 1, 2),

    BINARY(add, "jnp.add", kAll, kSame, smooth, keep, any_, 0, 2, 0),
    BINARY(subtract, "jnp.subtract", kNumbers, kSame, smooth, keep, any_, 0, 2, 0),
    BINARY(multiply, "jnp.multiply", kAll, kSame, smooth, squared, any_, 4, 4, 0),
    BINARY(divide, "jnp.divide", kF, kSame, smooth, no, divisor, 4, 2, 0),
    BINARY(floor_divide, "jnp.floor_divide", kInts, kSame, kinked, whole, divisor, 0, 1, 0),
    BINARY(remainder, "jnp.remainder", kInts, kSame, kinked, whole, divisor, 0, 1, 0),
    BINARY(fmod, "jnp.fmod", kInts, kSame, kinked, whole, divisor, 0, 1, 0),
    BINARY(power, "jnp.power", kF, kSame, smooth, no, positive_, 2, 0, 100),
    BINARY(maximum, "jnp.maximum", kReals | kB, kSame, kinked, keep, any_, 0, 1, 0),
    BINARY(minimum, "jnp.minimum", kReals | kB, kSame, kinked, keep, any_, 0, 1, 0),
    BINARY(logaddexp, "jnp.logaddexp", kF, kSame, smooth, no, any_, 4, 1, 1),
    BINARY(arctan2, "jnp.arctan2", kF, kSame, smooth, no, positive_, 4, 0, 4),
    BINARY(hypot, "jnp.hypot", kF, kSame, smooth, no, positive_, 4, 2, 0),
    BINARY(xlogy, "jax.scipy.special.xlogy", kF, kSame, smooth, no, positive_, 2, 4, 4),
    BINARY(equal, "jnp.equal", kAll, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(not_equal, "jnp.not_equal", kAll, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(less, "jnp.less", kReals | kB, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(less_equal, "jnp.less_equal", kReals, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(greater, "jnp.greater", kReals, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(greater_equal, "jnp.greater_equal", kReals, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(logical_and, "jnp.logical_and", kInts | kB, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(logical_or, "jnp.logical_or", kInts | kB, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(logical_xor, "jnp.logical_xor", kInts | kB, kToBool, kinked, whole, any_, 0, 0, 1),
    BINARY(bitwise_and, "jnp.bitwise_and", kInts | kB, kSame, kinked, whole, any_, 0, 2, 2),
    BINARY(bitwise_or, "jnp.bitwise_or", kInts | kB, kSame, kinked, whole, any_, 0, 2, 2),
    BINARY(bitwise_xor, "jnp.bitwise_xor", kInts | kB, kSame, kinked, whole, any_, 0, 2, 2),
    BINARY(left_shift, "jnp.left_shift", kInts, kSame, kinked, whole, divisor, 0, 16, 0),
    BINARY(right_shift, "jnp.right_shift", kInts, kSame, kinked, whole, divisor, 0, 1, 1),
    BINARY(gcd, "jnp.gcd", kI, kSame, kinked, whole, any_, 16, 1, 0),

    // Along dimensions.
    REDUCE(sum, "jnp.sum", kAll, Gives::kSum, smooth, keep, any_, 0, 1, 0),
    REDUCE(prod, "jnp.prod", kReals, Gives::kSum, smooth, no, any_, 1, 1, 0),
    REDUCE(max, "jnp.max", kReals | kB, kSame, kinked, keep, any_, 0, 1, 0),
    REDUCE(min, "jnp.min", kReals | kB, kSame, kinked, keep, any_, 0, 1, 0),
    REDUCE(mean, "jnp.mean", kF | kC, kSame, smooth, no, any_, 0, 1, 0),
    REDUCE(var, "jnp.var", kF, kSame, smooth, no, any_, 4, 8, 0),
    REDUCE(logsumexp, "jax.nn.logsumexp", kF, kSame, smooth, no, any_, 4, 1, 6),
    REDUCE(any, "jnp.any", kAll, kToBool, kinked, whole, any_, 0, 0, 1),
    REDUCE(all, "jnp.all", kAll, kToBool, kinked, whole, any_, 0, 0, 1),
    REDUCE(count_nonzero, "jnp.count_nonzero", kAll, Gives::kPlace, kinked, whole, any_, 0, 0, 1000),
    CUMULATIVE(cumsum, kNumbers, kSame, smooth, keep, any_, 0, 1, 0),
    CUMULATIVE(cumprod, kReals, kSame, smooth, no, any_, 1, 1, 0),
    CUMULATIVE(cummax, kReals, kSame, kinked, keep, any_, 0, 1, 0),
    CUMULATIVE(cummin, kReals, kSame, kinked, keep, any_, 0, 1, 0),
    CUMULATIVE(cumlogsumexp, kF, kSame, smooth, no, any_, 4, 1, 6),
    {"argmax", "ls::argmax($0, #0)", "jnp.argmax($0, axis=#0).astype(#D)", Family::kAxis, kReals,
     Gives::kPlace, kinked, whole, any_, 0, 0, 9, RUN(argmax(x[0], n.ints[0]))},
    {"argmin", "ls::argmin($0, #0)", "jnp.argmin($0, axis=#0).astype(#D)", Family::kAxis, kReals,
     Gives::kPlace, kinked, whole, any_, 0, 0, 9, RUN(argmin(x[0], n.ints[0]))},
    {"sort", "ls::sort($0, #0)", "jnp.sort($0, axis=#0)", Family::kAxis, kReals, kSame, kinked, keep, any_, 0,
     1, 0, RUN(sort(x[0], n.ints[0]))},
    {"sort_descending", "ls::sort($0, {.axis = #0, .descending = true})",
     "jnp.sort($0, axis=#0, descending=True)", Family::kAxis, kReals, kSame, kinked, keep, any_, 0, 1, 0,
     RUN(sort(x[0], {.axis = n.ints[0], .descending = true}))},
    {"argsort", "ls::argsort($0, #0)", "jnp.argsort($0, axis=#0).astype(#D)", Family::kAxis, kReals,
     Gives::kPlace, kinked, whole, any_, 0, 0, 9, RUN(argsort(x[0], n.ints[0]))},
    {"softmax", "ls::nn::softmax($0, #0)", "jax.nn.softmax($0, axis=#0)", Family::kAxis, kF, kSame, smooth,
     no, any_, 4, 0, 1, RUN(nn::softmax(x[0], n.ints[0]))},
    {"log_softmax", "ls::nn::log_softmax($0, #0)", "jax.nn.log_softmax($0, axis=#0)", Family::kAxis, kF,
     kSame, smooth, no, any_, 4, 2, 3, RUN(nn::log_softmax(x[0], n.ints[0]))},
    {"standardize", "ls::nn::standardize($0, #0, 0.1)", "jax.nn.standardize($0, axis=#0, epsilon=0.1)",
     Family::kAxis, kF, kSame, smooth, no, any_, 2, 0, 3, RUN(nn::standardize(x[0], n.ints[0], 0.1))},
    {"flip", "ls::flip($0, #0)", "jnp.flip($0, axis=#0)", Family::kAxis, kAll, kSame, smooth, keep, any_, 0,
     1, 0, RUN(flip(x[0], n.ints[0]))},
    {"fft", "ls::fft::fft($0, {.axis = #0})", "jnp.fft.fft($0, axis=#0)", Family::kFourier, kC, kSame, smooth,
     no, any_, 4, 1, 0, RUN(fft::fft(x[0], {.axis = n.ints[0]}))},
    {"ifft", "ls::fft::ifft($0, {.axis = #0})", "jnp.fft.ifft($0, axis=#0)", Family::kFourier, kC, kSame,
     smooth, no, any_, 0, 1, 0, RUN(fft::ifft(x[0], {.axis = n.ints[0]}))},
    {"rfft", "ls::fft::rfft($0, {.axis = #0})", "jnp.fft.rfft($0, axis=#0)", Family::kFourier, kF,
     Gives::kComplex, smooth, no, any_, 4, 1, 0, RUN(fft::rfft(x[0], {.axis = n.ints[0]}))},
    {"irfft", "ls::fft::irfft($0, {.axis = #0})", "jnp.fft.irfft($0, axis=#0)", Family::kFourier, kC,
     Gives::kReal, smooth, no, any_, 0, 1, 0, RUN(fft::irfft(x[0], {.axis = n.ints[0]}))},

    // Constants and numbers.
    OTHER("full", "ls::full({#S}, #n0, #D)", "jnp.full((#S,), #n0, #D)",
          full(t.shape, n.numbers[0], t.dtype)),
    OTHER("iota", "ls::broadcast_to(ls::reshape(ls::arange(#0, #D), {#1+}), {#S})",
          "jnp.broadcast_to(jnp.arange(#0, dtype=#D).reshape([#1+]), (#S,))",
          broadcast_to(reshape(arange(n.ints[0], t.dtype), tail(n, 1)), t.shape)),
    OTHER("eye", "ls::eye(#0, #1, #D)", "jnp.eye(#0, #1, dtype=#D)", eye(n.ints[0], n.ints[1], t.dtype)),
    OTHER("scale", "$0 * #n0", "$0 * #n0", x[0] * n.numbers[0]),
    OTHER("scale_whole", "$0 * #0", "$0 * #0", x[0] * n.ints[0]),
    OTHER("offset", "$0 + #n0", "$0 + #n0", x[0] + n.numbers[0]),
    OTHER("offset_whole", "$0 + #0", "$0 + #0", x[0] + n.ints[0]),
    OTHER("integer_power", "ls::power($0, #0)", "jnp.power($0, #0)", power(x[0], n.ints[0])),
    OTHER("mask", "($0 & #0) + 1", "($0 & #0) + 1", (x[0] & n.ints[0]) + 1),
    OTHER("astype", "ls::astype($0, #D)", "$0.astype(#D)", astype(x[0], t.dtype)),
    OTHER("complex", "ls::complex($0, $1)", "jax.lax.complex($0, $1)", lockstep::complex(x[0], x[1])),
    OTHER("where", "ls::where($0, $1, $2)", "jnp.where($0, $1, $2)", where(x[0], x[1], x[2])),
    OTHER("clip", "ls::clip($0, #n0, #n1)", "jnp.clip($0, #n0, #n1)", clip(x[0], n.numbers[0], n.numbers[1])),
    OTHER("clamp", "ls::clamp($0, $1, $2)", "jax.lax.clamp($0, $1, $2)", clamp(x[0], x[1], x[2])),

    // Moving elements. #a, #b, #c: so many ints as there are dimensions, the first, second and third time.
    OTHER("reshape", "ls::reshape($0, {#S})", "jnp.reshape($0, (#S,))", reshape(x[0], t.shape)),
    OTHER("transpose", "ls::transpose($0, {#a})", "jnp.transpose($0, (#a,))",
          transpose(x[0], chunk(x, n, 0))),
    OTHER("swapaxes", "ls::swapaxes($0, #0, #1)", "jnp.swapaxes($0, #0, #1)",
          swapaxes(x[0], n.ints[0], n.ints[1])),
    OTHER("moveaxis", "ls::moveaxis($0, #0, #1)", "jnp.moveaxis($0, #0, #1)",
          moveaxis(x[0], n.ints[0], n.ints[1])),
    OTHER("expand_dims", "ls::expand_dims($0, #0)", "jnp.expand_dims($0, #0)", expand_dims(x[0], n.ints[0])),
    OTHER("squeeze", "ls::squeeze($0, #0)", "jnp.squeeze($0, #0)", squeeze(x[0], n.ints[0])),
    OTHER("broadcast_to", "ls::broadcast_to($0, {#S})", "jnp.broadcast_to($0, (#S,))",
          broadcast_to(x[0], t.shape)),
    OTHER("concatenate", "ls::concatenate({$*}, #0)", "jnp.concatenate([$*], axis=#0)",
          concatenate(x, n.ints[0])),
    OTHER("stack", "ls::stack({$*}, #0)", "jnp.stack([$*], axis=#0)", stack(x, n.ints[0])),
    OTHER("slice", "ls::slice($0, {#a}, {#b}, {#c})", "jax.lax.slice($0, [#a], [#b], [#c])",
          slice(x[0], chunk(x, n, 0), chunk(x, n, 1), chunk(x, n, 2))),
    OTHER("index", "$0[#0]", "$0[#0]", x[0][Index(n.ints[0])]),
    OTHER("pad", "ls::pad($0, {#z}, #n0)", "jnp.pad($0, [#z], constant_values=#n0)",
          [&] {
            std::vector<std::pair<std::int64_t, std::int64_t>> widths;
            const auto rank = static_cast<std::size_t>(x[0].ndim());
            for (std::size_t d = 0; d < rank; ++d) widths.emplace_back(n.ints[d], n.ints[rank + d]);
            return is_inexact(t.dtype) ? pad(x[0], widths, n.numbers[0])
                                       : pad(x[0], widths, static_cast<std::int64_t>(n.numbers[0]));
          }()),
    OTHER("roll", "ls::roll($0, #0, #1)", "jnp.roll($0, #0, axis=#1)", roll(x[0], n.ints[0], n.ints[1])),
    OTHER("tile", "ls::tile($0, {#a})", "jnp.tile($0, (#a,))", tile(x[0], chunk(x, n, 0))),
    OTHER("repeat", "ls::repeat($0, #0, #1)", "jnp.repeat($0, #0, axis=#1)",
          repeat(x[0], n.ints[0], n.ints[1])),
    OTHER("tril", "ls::tril($0, #0)", "jnp.tril($0, #0)", tril(x[0], n.ints[0])),
    OTHER("triu", "ls::triu($0, #0)", "jnp.triu($0, #0)", triu(x[0], n.ints[0])),
    OTHER("diagonal", "ls::diagonal($0, #0)", "jnp.diagonal($0, #0)", diagonal(x[0], n.ints[0])),
    OTHER("diff", "ls::diff($0, 1, #0)", "jnp.diff($0, axis=#0)", diff(x[0], 1, n.ints[0])),

    // Reading and writing parts.
    OTHER("dynamic_slice", "ls::dynamic_slice($0, {$1+}, {#S})", "jax.lax.dynamic_slice($0, ($1+,), (#S,))",
          dynamic_slice(x[0], {x.begin() + 1, x.end()}, t.shape)),
    OTHER("dynamic_update_slice", "ls::dynamic_update_slice($0, $1, {$2+})",
          "jax.lax.dynamic_update_slice($0, $1, ($2+,))",
          dynamic_update_slice(x[0], x[1], {x.begin() + 2, x.end()})),
    OTHER("take", "ls::take($0, $1, {.axis = #0, .mode = ls::GatherScatterMode::kClip})",
          "jnp.take($0, $1, axis=#0, mode='clip')",
          take(x[0], x[1], {.axis = n.ints[0], .mode = GatherScatterMode::kClip})),
    OTHER("take_along_axis", "ls::take_along_axis($0, $1, #0, ls::GatherScatterMode::kClip)",
          "jnp.take_along_axis($0, $1, axis=#0, mode='clip')",
          take_along_axis(x[0], x[1], n.ints[0], GatherScatterMode::kClip)),
    OTHER("gather", "$0[$1]", "$0[$1]", x[0][Index(x[1])]),
    OTHER("set_at", "$0.at($1).set($2)", "$0.at[$1].set($2)", x[0].at(Index(x[1])).set(x[2])),
    OTHER("add_at", "$0.at($1).add($2)", "$0.at[$1].add($2)", x[0].at(Index(x[1])).add(x[2])),
    OTHER("set_part", "$0.at(ls::slice(#0, #1, #2)).set($1)", "$0.at[#0:#1:#2].set($1)",
          x[0].at(Index(slice(n.ints[0], n.ints[1], n.ints[2]))).set(x[1])),
    OTHER("add_part", "$0.at(ls::slice(#0, #1, #2)).add($1)", "$0.at[#0:#1:#2].add($1)",
          x[0].at(Index(slice(n.ints[0], n.ints[1], n.ints[2]))).add(x[1])),
    OTHER("part", "$0[ls::slice(#0, #1, #2)]", "$0[#0:#1:#2]",
          x[0][Index(slice(n.ints[0], n.ints[1], n.ints[2]))]),
    OTHER("one_hot", "ls::one_hot($0, #0, #D)", "jax.nn.one_hot($0, #0, dtype=#D)",
          one_hot(x[0], n.ints[0], t.dtype)),
    OTHER("segment_sum", "ls::segment_sum($0, $1, #0)", "jax.ops.segment_sum($0, $1, #0)",
          segment_sum(x[0], x[1], n.ints[0])),
    OTHER("searchsorted", "ls::searchsorted($0, $1)", "jnp.searchsorted($0, $1).astype(#D)",
          searchsorted(x[0], x[1])),
    OTHER("top_k", "ls::top_k($0, #0).first", "jax.lax.top_k($0, #0)[0]", top_k(x[0], n.ints[0]).first),

    // Products.
    OTHER("matmul", "ls::matmul($0, $1)", "jnp.matmul($0, $1)", matmul(x[0], x[1])),
    OTHER("dot", "ls::dot($0, $1)", "jnp.dot($0, $1)", dot(x[0], x[1])),
    OTHER("outer", "ls::outer($0, $1)", "jnp.outer($0, $1)", outer(x[0], x[1])),
    OTHER("tensordot", "ls::tensordot($0, $1, #0)", "jnp.tensordot($0, $1, #0)",
          tensordot(x[0], x[1], n.ints[0])),
    OTHER("einsum", "ls::einsum(\"#T\", {$*})", "jnp.einsum('#T', $*)", einsum(n.text, x)),
    OTHER("cholesky", "ls::linalg::cholesky($0)", "jnp.linalg.cholesky($0)", linalg::cholesky(x[0])),
    OTHER("solve", "ls::linalg::solve($0, $1)", "jnp.linalg.solve($0, $1)", linalg::solve(x[0], x[1])),
    OTHER("inv", "ls::linalg::inv($0)", "jnp.linalg.inv($0)", linalg::inv(x[0])),
    OTHER("det", "ls::linalg::det($0)", "jnp.linalg.det($0)", linalg::det(x[0])),
    OTHER("conv", "ls::nn::conv($0, $1)", "_conv($0, $1)", nn::conv(x[0], x[1])),
    OTHER("max_pool", "ls::nn::max_pool($0, {#0})", "_max_pool($0, #0)", nn::max_pool(x[0], {n.ints[0]})),
    OTHER("avg_pool", "ls::nn::avg_pool($0, {#0})", "_avg_pool($0, #0)", nn::avg_pool(x[0], {n.ints[0]})),
};

}  // namespace

std::span<const Operation> operations() { return kOperations; }

bool is_operation(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::map<std::string_view, const Operation*>;
    for (const Operation& each : kOperations) map->emplace(each.name, &each);
    return map;
  }();
  return by_name->contains(name);
}

const Operation& operation(std::string_view name) {
  for (const Operation& each : kOperations) {
    if (each.name == name) return each;
  }
  throw std::logic_error("no operation is called " + std::string(name));
}

unsigned dtype_class(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeKind::kBool:
      return kB;
    case DTypeKind::kSigned:
      return kI;
    case DTypeKind::kUnsigned:
      return kU;
    case DTypeKind::kFloat:
      return kF;
    case DTypeKind::kComplex:
      return kC;
  }
  return 0;
}

}  // namespace lockstep::fuzz
