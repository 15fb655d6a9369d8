// SPDX-License-Identifier: Apache-2.0
// Derivatives where several elements are equal, or one is written twice. The numbers are what JAX 0.10.2
// gives.

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/nn/convolution.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using ::testing::HasSubstr;

TEST(IndexDerivatives, AnElementWrittenTwice_PassesItsGradientToTheLastWrite) {
  const Array places = array({1, 1, 0}), weights = arange(1, 5, 1, float32);
  auto loss = [&](Array x, Array values) { return sum(x.at(places).set(values) * weights); };
  auto [value, grads] = value_and_grad<0, 1>(loss)(zeros({4}), ones({3}));
  expect_equal(std::get<0>(grads), array({0.f, 0.f, 3.f, 4.f}));
  expect_equal(std::get<1>(grads), array({0.f, 2.f, 1.f}));
}

TEST(IndexDerivatives, OfOneElementOfEachRow_IsComparedWithItsIndex) {
  const Array x = test::waves({3, 4});
  const Array by_row = array({1, -1, 9}, {3, 1});  // 9 is out of bounds: NaN, without a gradient
  auto taken = [](Array x, Array places, std::int64_t axis) {
    return nansum(square(take_along_axis(x, places, axis)));
  };
  auto along_rows = [&](Array x) { return taken(x, by_row, 1); };
  auto along_columns = [&](Array x) { return taken(x, array({2, 0, 1, 2}, {1, 4}), 0); };
  auto twice = [&](Array x) { return taken(x, concatenate({by_row, by_row}, 1), 1); };
  const Array chosen = array({0.f, 1.f, 0.f, 0.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}, {3, 4});
  expect_equal(grad(along_rows)(x), 2.f * x * chosen);
  expect_equal(grad(along_columns)(x),
               2.f * x * array({0.f, 1.f, 0.f, 0.f, 0.f, 0.f, 1.f, 0.f, 1.f, 0.f, 0.f, 1.f}, {3, 4}));
  expect_equal(grad(twice)(x), 4.f * x * chosen);
  const auto scatters = [&](auto loss) {
    return jit(grad(loss)).lower(x).as_text().find("scatter") != std::string::npos;
  };
  EXPECT_FALSE(scatters(along_rows));
  EXPECT_FALSE(scatters(along_columns));
  EXPECT_TRUE(scatters(twice));
}

TEST(IndexDerivatives, SortAndCumulativeOperations_PassGradientsToTheirElements) {
  const Array weights = arange(1, 5, 1, float32);
  auto sorted = [](Array x) { return sum(sort(x) * arange(3, float32)); };
  expect_equal(grad(sorted)(array({3.f, 1.f, 2.f})), array({2.f, 0.f, 1.f}));
  auto largest = [&](Array x) { return sum(cummax(x) * weights); };
  expect_equal(grad(largest)(array({1.f, 3.f, 3.f, 2.f})), array({1.f, 5.5f, 3.5f, 0.f}));
  auto products = [&](Array x) { return sum(cumprod(x) * weights); };
  expect_equal(grad(products)(array({1.f, 0.f, 3.f, 2.f})), array({1.f, 35.f, 0.f, 0.f}));
}

TEST(IndexDerivatives, AMaxPool_PassesTheGradientToTheFirstOfEqualElements) {
  const Array x = reshape(
      array({1.f, 1.f, 0.f, 2.f, 0.f, 3.f, 3.f, 1.f, 3.f, 0.f, 1.f, 1.f, 2.f, 2.f, 2.f, 0.f}), {1, 4, 4, 1});
  auto loss = [](Array x) {
    return sum(nn::max_pool(x, {2, 2}) * reshape(arange(9, float32), {1, 3, 3, 1}));
  };
  expect_equal(ravel(grad(loss)(x)),
               array({0.f, 0.f, 0.f, 0.f, 0.f, 8.f, 7.f, 0.f, 6.f, 0.f, 0.f, 0.f, 0.f, 7.f, 8.f, 0.f}));
}

TEST(IndexDerivatives, VmapOverRows_GivesTheDerivativesOfTheWhole) {
  auto row = [](Array x) { return sum(square(x[array({2, 0, 2})]) + cumsum(x, 0)); };
  const Array x = test::waves({4, 3});
  expect_equal(vmap(grad(row))(x), grad([](Array all) {
                 return sum(square(all[{slice(), array({2, 0, 2})}]) + cumsum(all, 1));
               })(x));
}

TEST(IndexDerivatives, AMultiplyAtIndicesThatMayRepeat_IsRefused) {
  auto loss = [](Array values) { return sum(ones({4}).at(array({1, 1})).multiply(values)); };
  EXPECT_THAT(
      error_of<TraceError>([&] { grad(loss)(ones({2})); }),
      HasSubstr("[scatter_mul] has a derivative in its updates only where no element is updated twice"));
  auto distinct = [](Array values) {
    return sum(ones({4}).at(array({1, 2})).multiply(values, {.unique_indices = true}));
  };
  expect_equal(grad(distinct)(ones({2})), array({1.f, 1.f}));
}

}  // namespace
}  // namespace lockstep
