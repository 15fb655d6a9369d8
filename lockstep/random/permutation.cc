// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/permutation.h"

#include <cmath>
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep::random {
namespace {

using ops::Tracers;

/// Within a trace: 0 ... n - 1, sorted by random words, often enough that equal words hardly matter.
Array shuffled(Array key, std::int64_t n) {
  Array x = ir::lax::iota(key, place_dtype(n), {n}, 0);
  const double largest = std::numeric_limits<std::uint32_t>::max();
  const int rounds = static_cast<int>(
      std::ceil(3 * std::log(std::max<double>(1, static_cast<double>(n))) / std::log(largest)));
  for (int round = 0; round < rounds; ++round) {
    const auto [next, drawn] = random::split<2>(key);
    key = next.data();
    const Array operands[] = {bits(drawn, {n}), x};
    x = ir::lax::sort(std::span<const Array>(operands), 0)[1];
  }
  return x;
}

void check_draws(std::int64_t n, const Shape& shape, const ChoiceOptions& options) {
  if (!options.replace && num_elements(shape) > n) {
    fail<ShapeError>("[random::choice] {} numbers cannot be drawn from {} without replacement{}",
                     num_elements(shape), n, ops::at());
  }
  if (n <= 0 && num_elements(shape) > 0) {
    fail<ShapeError>("[random::choice] expected something to choose from, got {}{}", n, ops::at());
  }
  if (options.p && options.p->shape() != Shape{n}) {
    fail<ShapeError>("[random::choice] expected a probability for each of {}, got {}{}", n,
                     to_string(options.p->aval()), ops::at());
  }
}

/// Within a trace: the numbers with these probabilities.
Array drawn(const Array& key, const Array& p, const Shape& shape, bool replace) {
  const std::int64_t n = p.shape()[0], count = num_elements(shape);
  if (!replace) {
    Array score = ir::lax::neg(gumbel(key, {n}, p.dtype()) + log(p));
    const Array operands[] = {score, ir::lax::iota(key, place_dtype(n), {n}, 0)};
    return ir::lax::reshape(
        ir::lax::slice(ir::lax::sort(std::span<const Array>(operands), 0)[1], {0}, {count}), shape);
  }
  Array sums = ir::lax::cumulative(ir::cumsum_p(), p, 0);
  Array r = index(sums, -1) * (1.0 - uniform(key, {count}, p.dtype()));
  Array below = reshape(sums, {1, n}) < reshape(r, {count, 1});
  return ir::lax::reshape(sum(below, 1), shape);
}

}  // namespace

Array permutation(const KeyOperand& key, std::int64_t n) {
  CallSiteScope here(key.site());
  return ops::run("random::permutation", fmt::format("{}", n), {key.as_array()},
                  [&](Tracers t) { return shuffled(t[0], n); });
}

Array permutation(const KeyOperand& key, const Array& x, std::int64_t axis) {
  CallSiteScope here(key.site());
  const std::int64_t along = ops::axis_of("random::permutation", axis, x.ndim(), x.aval());
  return ops::run("random::permutation", fmt::format("axis={}", along), {key.as_array(), x}, [&](Tracers t) {
    Array order = shuffled(t[0], t[1].shape()[static_cast<std::size_t>(along)]);
    Array parts = moveaxis(t[1], along, 0);
    return moveaxis(parts[{order}], 0, along);
  });
}

Array choice(const KeyOperand& key, std::int64_t n, const Shape& shape, const ChoiceOptions& options) {
  CallSiteScope here(key.site());
  check_draws(n, shape, options);
  if (options.p) {
    return ops::run("random::choice", fmt::format("{} {}", to_string(shape), options.replace),
                    {key.as_array(), *options.p},
                    [&](Tracers t) { return drawn(t[0], t[1], shape, options.replace); });
  }
  if (options.replace) return randint(key, shape, 0, n, place_dtype(n));
  const std::int64_t count = num_elements(shape);
  return ops::run(
      "random::choice", fmt::format("{} {}", n, to_string(shape)), {key.as_array()},
      [&](Tracers t) { return ir::lax::reshape(ir::lax::slice(shuffled(t[0], n), {0}, {count}), shape); });
}

Array choice(const KeyOperand& key, const Array& values, const Shape& shape, const ChoiceOptions& options) {
  CallSiteScope here(key.site());
  if (values.ndim() == 0) {
    fail<ShapeError>("[random::choice] expected an array to choose from, got {}{}", to_string(values.aval()),
                     ops::at());
  }
  Array places = choice(key, values.shape()[0], shape, options);
  return values[{places}];
}

}  // namespace lockstep::random
