// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/random.h"
#include "lockstep/ops/ops.h"
#include "lockstep/random/distributions.h"
#include "lockstep/random/gamma.h"
#include "lockstep/random/permutation.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_random(Functions& all) {
  const Shape shape = {4, 6};
  all["random::key"] = [](const Arrays&) { return Arrays{random::key(1U << 30 | 7).data()}; };
  all["random::split"] = [](const Arrays& a) { return Arrays{random::split(a[0], 3).data()}; };
  all["random::fold_in"] = [](const Arrays& a) { return Arrays{random::fold_in(a[0], 7).data()}; };
  all["random::bits(uint8)"] = [=](const Arrays& a) { return Arrays{random::bits(a[0], shape, uint8)}; };
  all["random::bits(uint16)"] = [=](const Arrays& a) { return Arrays{random::bits(a[0], shape, uint16)}; };
  all["random::bits(uint32)"] = [=](const Arrays& a) { return Arrays{random::bits(a[0], shape)}; };
  all["random::uniform"] = [=](const Arrays& a) { return Arrays{random::uniform(a[0], shape)}; };
  all["random::uniform(bf16)"] = [=](const Arrays& a) {
    return Arrays{random::uniform(a[0], shape, bfloat16)};
  };
  all["random::uniform(-3, 5)"] = [=](const Arrays& a) {
    return Arrays{random::uniform(a[0], shape, float32, -3.0, 5.0)};
  };
  all["random::randint"] = [=](const Arrays& a) { return Arrays{random::randint(a[0], shape, -5, 100)}; };
  all["random::randint(bounds of arrays)"] = [=](const Arrays& a) {
    return Arrays{random::randint(a[0], shape, a[1] - 3, a[1] + 9)};
  };
  all["random::bernoulli"] = [=](const Arrays& a) { return Arrays{random::bernoulli(a[0], 0.3, shape)}; };
  all["random::bernoulli(p of an array)"] = [=](const Arrays& a) {
    return Arrays{random::bernoulli(a[0], a[1], shape)};
  };
  all["random::categorical"] = [](const Arrays& a) { return Arrays{random::categorical(a[0], a[1])}; };
  all["random::permutation"] = [](const Arrays& a) { return Arrays{random::permutation(a[0], 10)}; };
  all["random::permutation(array)"] = [](const Arrays& a) {
    return Arrays{random::permutation(a[0], a[1], 1)};
  };
  all["random::choice"] = [=](const Arrays& a) { return Arrays{random::choice(a[0], 10, shape)}; };
  all["random::choice(p)"] = [=](const Arrays& a) {
    return Arrays{random::choice(a[0], 6, shape, {.p = index(a[1], 0)})};
  };
  all["random::choice(without replacement)"] = [](const Arrays& a) {
    return Arrays{random::choice(a[0], 10, {6}, {.replace = false})};
  };
  all["random::choice(array)"] = [](const Arrays& a) { return Arrays{random::choice(a[0], a[1], {4})}; };
  all["random::normal"] = [=](const Arrays& a) { return Arrays{random::normal(a[0], shape)}; };
  all["random::truncated_normal"] = [=](const Arrays& a) {
    return Arrays{random::truncated_normal(a[0], -1.0, 2.0, shape)};
  };
  all["random::gumbel"] = [=](const Arrays& a) { return Arrays{random::gumbel(a[0], shape)}; };
  all["random::exponential"] = [=](const Arrays& a) { return Arrays{random::exponential(a[0], shape)}; };
  all["random::laplace"] = [=](const Arrays& a) { return Arrays{random::laplace(a[0], shape)}; };
  all["random::logistic"] = [=](const Arrays& a) { return Arrays{random::logistic(a[0], shape)}; };
  all["random::cauchy"] = [=](const Arrays& a) { return Arrays{random::cauchy(a[0], shape)}; };
  all["random::pareto"] = [=](const Arrays& a) { return Arrays{random::pareto(a[0], 1.5, shape)}; };
  all["random::weibull_min"] = [=](const Arrays& a) {
    return Arrays{random::weibull_min(a[0], 2.0, 1.5, shape)};
  };
  all["random::lognormal"] = [=](const Arrays& a) { return Arrays{random::lognormal(a[0], 0.5, shape)}; };
  all["random::gamma"] = [](const Arrays& a) { return Arrays{random::gamma(a[0], a[1])}; };
  all["random::loggamma"] = [](const Arrays& a) { return Arrays{random::loggamma(a[0], a[1])}; };
  all["random::beta"] = [](const Arrays& a) { return Arrays{random::beta(a[0], a[1], a[2])}; };
  all["random::dirichlet"] = [](const Arrays& a) { return Arrays{random::dirichlet(a[0], a[1], {2, 4})}; };
  all["random::chisquare"] = [](const Arrays& a) { return Arrays{random::chisquare(a[0], a[1])}; };
  all["random::t"] = [](const Arrays& a) { return Arrays{random::t(a[0], a[1])}; };
  all["random::poisson"] = [](const Arrays& a) { return Arrays{random::poisson(a[0], a[1] * 8)}; };
  all["random::rademacher"] = [=](const Arrays& a) { return Arrays{random::rademacher(a[0], shape)}; };
  all["random::dropout"] = [](const Arrays& a) { return Arrays{random::dropout(a[0], a[1], 0.25)}; };
}

}  // namespace lockstep::golden
